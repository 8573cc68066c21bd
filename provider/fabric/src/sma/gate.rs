//! Which packets for QP1 a port takes.

use super::types::Output;
use super::{Node, Port};
use ferroce_wire::mad::QP1_QKEY;
use ferroce_wire::pkey;

/// What becomes of a packet for QP1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It is not for this port, or the port does not take data yet. Nobody is told.
    Closed,
    /// It is of none of the port's partitions.
    WrongPKey,
    /// Its Q_Key is not that of QP1.
    WrongQKey,
    /// It is taken; this is the entry of the P_Key table that its key matches.
    Open(u16),
}

impl Node {
    /// A packet for QP1 arrived by the link of a port. The first one takes an armed port to active.
    /// A wrong key is for the host to report, by [`Node::p_key_violation`] or
    /// [`Node::q_key_violation`].
    pub fn gate(
        &mut self,
        port: u8,
        dlid: u16,
        p_key: u16,
        q_key: u32,
        out: &mut impl Output,
    ) -> Gate {
        let open = self.data_arrived(port, out) || port == 0;
        let Some(state) = self.port(port).filter(|_| open) else {
            return Gate::Closed;
        };
        if !state.has_lid(dlid) {
            return Gate::Closed;
        }
        match state.p_key_index(p_key) {
            None => Gate::WrongPKey,
            Some(_) if q_key != QP1_QKEY => Gate::WrongQKey,
            Some(index) => Gate::Open(index),
        }
    }
}

impl Port {
    /// The entry of the P_Key table that a packet's key matches: the same partition, and not
    /// limited members both (section 10.9.3). A packet for queue pair 1 may have any of the port's
    /// (C9-42).
    pub fn p_key_index(&self, p_key: u16) -> Option<u16> {
        let at = (self.p_keys().iter()).position(|own| pkey::matches(*own, p_key))?;
        u16::try_from(at).ok()
    }
}
