//! All IDs of a manager, with the ways to find them and their timers. What a message means is not
//! known here.

use super::conn::{Conn, QpKey, RemoteKey};
use super::half_open::HalfOpen;
use super::types::{CmId, Time};
use ferroce_wire::mad::Gid;
use rand::{Rng, rngs::StdRng};
use std::collections::{BTreeSet, HashMap};

/// Connections and resolutions.
pub(super) struct Table {
    conns: HashMap<CmId, Conn>,
    by_local: HashMap<u32, CmId>,
    by_remote: HashMap<RemoteKey, CmId>,
    by_qp: HashMap<QpKey, CmId>,
    by_sidr: HashMap<(Gid, u32), CmId>,
    timers: BTreeSet<(Time, CmId)>,
    /// Those that nobody owns and that only linger, by their end.
    lingering: BTreeSet<(Time, CmId)>,
    half_open: HalfOpen,
    next_id: u64,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            conns: HashMap::new(),
            by_local: HashMap::new(),
            by_remote: HashMap::new(),
            by_qp: HashMap::new(),
            by_sidr: HashMap::new(),
            timers: BTreeSet::new(),
            lingering: BTreeSet::new(),
            half_open: HalfOpen::default(),
            next_id: 1,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.conns.len()
    }

    /// Connections that peers began and that are not established.
    pub(super) fn half_open(&self) -> &HalfOpen {
        &self.half_open
    }

    /// An ID that was never given out.
    pub(super) fn fresh_id(&mut self) -> CmId {
        let id = CmId(self.next_id);
        self.next_id += 1;
        id
    }

    /// A random communication ID that is not in use.
    pub(super) fn fresh_comm_id(&self, rng: &mut StdRng) -> u32 {
        loop {
            let id = rng.random();
            if id != 0 && !self.by_local.contains_key(&id) {
                return id;
            }
        }
    }

    pub(super) fn get(&self, id: CmId) -> Option<&Conn> {
        self.conns.get(&id)
    }

    pub(super) fn by_local(&self, comm_id: u32) -> Option<CmId> {
        self.by_local.get(&comm_id).copied()
    }

    pub(super) fn by_remote(&self, key: &RemoteKey) -> Option<CmId> {
        self.by_remote.get(key).copied()
    }

    pub(super) fn by_qp(&self, key: &QpKey) -> Option<CmId> {
        self.by_qp.get(key).copied()
    }

    pub(super) fn by_sidr(&self, key: &(Gid, u32)) -> Option<CmId> {
        self.by_sidr.get(key).copied()
    }

    pub(super) fn insert(&mut self, conn: Conn) -> CmId {
        let id = self.fresh_id();
        self.conns.insert(id, conn);
        self.index(id);
        id
    }

    pub(super) fn remove(&mut self, id: CmId) {
        self.unindex(id);
        self.conns.remove(&id);
    }

    /// Changes a connection, keys and deadline included; `None` if there is no such ID.
    pub(super) fn change<R>(&mut self, id: CmId, f: impl FnOnce(&mut Conn) -> R) -> Option<R> {
        self.unindex(id);
        let result = self.conns.get_mut(&id).map(f);
        self.index(id);
        result
    }

    fn index(&mut self, id: CmId) {
        let Some(conn) = self.conns.get(&id) else {
            return;
        };

        self.by_local.insert(conn.local_comm_id, id);
        if let Some(key) = conn.remote_key {
            self.by_remote.insert(key, id);
        }
        if let Some(key) = conn.qp_key {
            self.by_qp.insert(key, id);
        }
        if let Some(key) = conn.sidr_key {
            self.by_sidr.insert(key, id);
        }

        if let Some(at) = conn.deadline {
            self.timers.insert((at, id));
            if !conn.owned && conn.pending.is_none() {
                self.lingering.insert((at, id));
            }
        }

        if let Some(ends) = conn.half_open() {
            self.half_open.insert(id, ends);
        }
    }

    fn unindex(&mut self, id: CmId) {
        let Some(conn) = self.conns.get(&id) else {
            return;
        };

        self.by_local.remove(&conn.local_comm_id);
        if let Some(key) = conn.remote_key {
            self.by_remote.remove(&key);
        }
        if let Some(key) = conn.qp_key {
            self.by_qp.remove(&key);
        }
        if let Some(key) = conn.sidr_key {
            self.by_sidr.remove(&key);
        }

        if let Some(at) = conn.deadline {
            self.timers.remove(&(at, id));
            self.lingering.remove(&(at, id));
        }

        if let Some(ends) = conn.half_open() {
            self.half_open.remove(id, ends);
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// An ID whose deadline is over.
    pub(super) fn due(&self, now: Time) -> Option<CmId> {
        let (at, id) = self.timers.first()?;
        (*at <= now).then_some(*id)
    }

    /// Makes room, if need be by forgetting what lingers and would soonest be forgotten anyway.
    /// `false` if there is none.
    pub(super) fn make_room(&mut self, limit: usize) -> bool {
        while self.conns.len() >= limit {
            let Some(&(_, id)) = self.lingering.first() else {
                return false;
            };
            self.remove(id);
        }
        true
    }
}
