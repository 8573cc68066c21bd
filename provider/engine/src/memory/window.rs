//! Memory windows: remote rights to a part of a region, given and taken back by work requests.
//!
//! Type 1 windows are bound by `ibv_bind_mw(3)` and may be bound anew at any time. Type 2 windows
//! are of the kind 2B: bound by a send request with a key of the consumer's, usable through the
//! queue pair of that request only, and bound anew only after an invalidate. Binds run inside the
//! send queue's processing, where the key table is only read, so each window has a lock of its own;
//! it is held while the memory is accessed through the window, so that an access ends before the
//! bind that takes it away completes.

use std::sync::atomic::Ordering;

use ferroce_transport::{Access, MemoryError, WindowBind};
use parking_lot::Mutex;

use crate::memory::keys::{self, KeyTable, Peer, Piece};

/// `enum ibv_mw_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MwType {
    /// Bound by a verb; any queue pair of the domain may use it.
    One,
    /// Bound by a send request to its queue pair.
    Two,
}

/// A window in the key table.
#[derive(Debug)]
pub(crate) struct Window {
    kind: MwType,
    /// Handle of the protection domain.
    pd: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rkey: u32,
    bound: Option<Bound>,
}

/// What a window gives access to.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Key of the region.
    region: u32,
    /// Queue pair that may use it; 0: every one of the domain (type 1).
    qpn: u32,
    access: Access,
    /// Where it begins in this process, and the address that peers use for that.
    addr: u64,
    iova: u64,
    len: u64,
}

impl Window {
    pub(crate) fn new(kind: MwType, pd: u32, rkey: u32) -> Window {
        Window {
            kind,
            pd,
            state: Mutex::new(State { rkey, bound: None }),
        }
    }

    /// See [`KeyTable::remote`].
    pub(crate) fn access<R>(
        &self,
        peer: Peer,
        key: u32,
        va: u64,
        len: u64,
        access: Access,
        f: impl FnOnce(Piece) -> Result<R, MemoryError>,
    ) -> Result<R, MemoryError> {
        let state = self.state.lock();
        let bound = self.bound(&state, peer, key)?;
        if !bound.access.contains(access) {
            return Err(MemoryError::Rights);
        }
        let offset = va.checked_sub(bound.iova).ok_or(MemoryError::Bounds)?;
        if offset.checked_add(len).is_none_or(|end| end > bound.len) {
            return Err(MemoryError::Bounds);
        }
        f(Piece {
            addr: bound.addr + offset,
            len: len as usize,
            fleeting: true,
        })
    }

    /// See [`KeyTable::extent`].
    pub(crate) fn extent(&self, peer: Peer, key: u32) -> Result<(u64, u64), MemoryError> {
        let bound = self.bound(&self.state.lock(), peer, key)?;
        Ok((bound.iova, bound.len))
    }

    /// What the window is bound to, if it is and the peer may use it under this key.
    fn bound(&self, state: &State, peer: Peer, key: u32) -> Result<Bound, MemoryError> {
        match state.bound {
            Some(bound)
                if state.rkey == key
                    && self.pd == peer.pd
                    && (bound.qpn == 0 || bound.qpn == peer.qpn) =>
            {
                Ok(bound)
            }
            _ => Err(MemoryError::Key),
        }
    }

    /// Carries out a bind that a queue pair of domain `pd` asks for; a refused one changes nothing.
    /// Every refusal completes the request with `IBV_WC_MW_BIND_ERR`.
    fn bind(&self, table: &KeyTable, qp: Peer, bind: &WindowBind) -> Result<(), MemoryError> {
        let mut state = self.state.lock();

        // C10-72: window, queue pair and region are of one domain.
        if self.pd != qp.pd || keys::index(bind.rkey) != keys::index(state.rkey) {
            return Err(MemoryError::Key);
        }

        // A type 2 window is bound when it is free only, and unbound by invalidation only
        // (o10-37.2.30, o10-37.2.40).
        if self.kind == MwType::Two && (state.bound.is_some() || bind.len == 0) {
            return Err(MemoryError::Rights);
        }

        let bound = if bind.len == 0 {
            None
        } else {
            Some(self.check(table, qp, bind)?)
        };
        if let Some(region) = bound.and_then(|b| table.region(b.region)) {
            region.windows.fetch_add(1, Ordering::Relaxed);
        }

        release(table, state.bound);
        *state = State {
            rkey: bind.rkey,
            bound,
        };

        Ok(())
    }

    fn check(&self, table: &KeyTable, qp: Peer, bind: &WindowBind) -> Result<Bound, MemoryError> {
        let remote_change = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;

        // Programs pass the rights of the region, local write among them: it says nothing about a
        // window.
        let known = remote_change
            | Access::REMOTE_READ
            | Access::FLUSH_GLOBAL
            | Access::FLUSH_PERSISTENT
            | Access::ZERO_BASED
            | Access::LOCAL_WRITE;

        // C10-73, C10-74. Whether memory can be made persistent is looked at when a region asks for
        // it.
        let mut need = Access::MW_BIND | bind.access & Access::FLUSH_PERSISTENT;
        if bind.access.intersects(remote_change) {
            need |= Access::LOCAL_WRITE;
        }

        let region = table.local(qp.pd, bind.lkey, need)?;
        if region.null || !known.contains(bind.access) {
            return Err(MemoryError::Rights);
        }

        Ok(Bound {
            region: bind.lkey,
            qpn: if self.kind == MwType::Two { qp.qpn } else { 0 },
            access: bind.access - Access::LOCAL_WRITE,
            // C10-75
            addr: region.resolve(bind.addr, bind.len)?,
            iova: if bind.access.contains(Access::ZERO_BASED) {
                0
            } else {
                bind.addr
            },
            len: bind.len,
        })
    }

    /// Takes back what a type 2 window was bound to. A free one stays free.
    fn invalidate(&self, table: &KeyTable, qp: Peer, key: u32) -> Result<(), MemoryError> {
        let mut state = self.state.lock();
        if self.pd != qp.pd || state.rkey != key {
            return Err(MemoryError::Key);
        }
        if self.kind != MwType::Two || state.bound.is_some_and(|b| b.qpn != qp.qpn) {
            return Err(MemoryError::Rights);
        }
        release(table, state.bound.take());
        Ok(())
    }

    pub(super) fn unbind(&self, table: &KeyTable) {
        release(table, self.state.lock().bound.take());
    }

    pub(crate) fn forget_qp(&self, table: &KeyTable, qpn: u32) {
        let mut state = self.state.lock();
        if state.bound.is_some_and(|b| b.qpn == qpn) {
            release(table, state.bound.take());
        }
    }
}

fn release(table: &KeyTable, bound: Option<Bound>) {
    if let Some(region) = bound.and_then(|b| table.region(b.region)) {
        region.windows.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KeyTable {
    /// Carries out a bind for a queue pair.
    pub(crate) fn bind(&self, qp: Peer, bind: &WindowBind) -> Result<(), MemoryError> {
        self.window(bind.window)
            .ok_or(MemoryError::Key)?
            .bind(self, qp, bind)
    }

    /// Invalidates a key for a queue pair: for its consumer, or for the peer of its connection.
    /// Only type 2 windows that are bound to it can be; the keys of regions that `ibv_reg_mr` made
    /// cannot.
    pub(crate) fn invalidate(&self, qp: Peer, key: u32) -> Result<(), MemoryError> {
        match self.window(keys::index(key)) {
            Some(window) => window.invalidate(self, qp, key),
            None => self
                .local(qp.pd, key, Access::empty())
                .and(Err(MemoryError::Rights)),
        }
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
