//! Partition enforcement: which packets a switch lets in and out by its external ports, where a
//! subnet manager has told it to look.
//!
//! The subnet manager gives a port of a switch the P_Keys of the node behind it. What that node
//! sends must be of one of these, and with no more membership than it has; what goes to it must be
//! what it would take.

use super::{Node, Port};
use ferroce_wire::pkey;

impl Node {
    /// Whether a data packet with this P_Key may come in by an external port of a switch.
    pub fn lets_in(&self, port: u8, p_key: u16) -> bool {
        self.port(port)
            .filter(|port| port.info.partition_enforcement_inbound)
            .is_none_or(|port| port.could_send(p_key))
    }

    /// Whether it may go out by one.
    pub fn lets_out(&self, port: u8, p_key: u16) -> bool {
        self.port(port)
            .filter(|port| port.info.partition_enforcement_outbound)
            .is_none_or(|port| port.p_key_index(p_key).is_some())
    }
}

impl Port {
    /// Whether an entry of the table is of the key's partition, and of a full member if the key
    /// says so.
    fn could_send(&self, p_key: u16) -> bool {
        let claims = pkey::is_full_member(p_key);
        self.p_keys().iter().any(|&own| {
            pkey::is_valid(own)
                && pkey::is_same_partition(own, p_key)
                && (!claims || pkey::is_full_member(own))
        })
    }
}
