//! One host: a manager, its listeners, and the programs behind its IDs.

use crate::program::Program;
use ferroce_fabric::{Av, Cm, CmConfig, CmEvent, CmId, Gid, Limits, Mad, Sink};
use ferroce_wire::cm::{Message, Rtu};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// What a manager said and nobody has carried out yet.
#[derive(Default)]
pub struct Out {
    /// Messages to send.
    pub sent: Vec<(Av, Mad)>,
    /// Events to handle.
    pub events: VecDeque<(CmId, CmEvent)>,
}

impl Sink for Out {
    fn send(&mut self, to: &Av, mad: &Mad) {
        self.sent.push((*to, *mad));
    }

    fn event(&mut self, id: CmId, event: CmEvent) {
        self.events.push_back((id, event));
    }
}

/// A host.
pub struct Host {
    /// Its manager.
    pub cm: Cm,
    /// What the manager said.
    pub out: Out,
    /// Programs by ID; an ID that was destroyed is not here any more.
    pub programs: BTreeMap<CmId, Program>,
    /// QPs at which a request of the peer's has arrived.
    pub heard: HashSet<u32>,
    /// Communication IDs of peers that have said that their connections stand, and were answered so
    /// that they know.
    pub told: HashSet<u32>,
    /// Listeners by service ID.
    pub listeners: BTreeMap<u64, CmId>,
}

impl Host {
    /// Host number `n`.
    pub fn new(n: usize, seed: u64, limits: Limits) -> Host {
        let mut bytes = [n as u8; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        Host {
            cm: Cm::new(CmConfig {
                ca_guid: 0x0200_0000_0000_0000 + n as u64,
                ack_delay: 15,
                seed: bytes,
                limits,
                stretch: 1,
            }),
            out: Out::default(),
            programs: BTreeMap::new(),
            heard: HashSet::new(),
            told: HashSet::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// Remembers how an RTU was answered that came just now: with an event, or with a DREQ, which
    /// is repeated until it is confirmed.
    pub fn answered(&mut self, rtu: &Rtu) {
        let closes = |(_, mad): &(Av, Mad)| matches!(Message::parse(mad), Ok((_, Message::Dreq(dreq))) if dreq.remote_comm_id == rtu.local_comm_id);
        let stands = |(_, event): &(CmId, CmEvent)| matches!(event, CmEvent::Established(_));
        if self.out.sent.iter().any(closes) || self.out.events.iter().any(stands) {
            self.told.insert(rtu.local_comm_id);
        }
    }
}

/// GID of host number `n`.
pub fn gid(n: usize) -> Gid {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, n as u8]
}

/// The host that has a GID.
pub fn host_of(gid: &Gid) -> usize {
    usize::from(gid[15])
}

/// From host `local` to host `remote`.
pub fn av(local: usize, remote: usize) -> Av {
    Av {
        local_gid: gid(local),
        local_index: 0,
        remote_gid: gid(remote),
        pkey: 0xffff,
        sl: 0,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        local_lid: 0,
        remote_lid: 0,
    }
}
