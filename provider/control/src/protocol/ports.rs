//! Ports and addresses, as the daemon tells programs of them.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A port of an InfiniBand device, as a program sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IbPort {
    /// Its number, from 1.
    pub number: u8,
    /// `enum ibv_port_state`: 1 down, 2 init, 3 armed, 4 active.
    pub state: u8,
    /// Physical state: 2 polling, 3 disabled, 5 link up.
    pub phys_state: u8,
    /// Base LID.
    pub lid: u16,
    /// How many of a LID's low bits are the port's to use.
    pub lmc: u8,
    /// The subnet manager's LID.
    pub sm_lid: u16,
    /// The service level to it.
    pub sm_sl: u8,
    /// Largest MTU in bytes.
    pub max_mtu: u32,
    /// MTU of the link in bytes.
    pub active_mtu: u32,
    /// CapabilityMask.
    pub capabilities: u32,
    /// SubnetTimeOut.
    pub subnet_timeout: u8,
    /// InitTypeReply.
    pub init_type_reply: u8,
    /// `active_width` of `ibv_port_attr`.
    pub width: u8,
    /// `active_speed` of `ibv_port_attr`.
    pub speed: u8,
    /// VLCap, as the code that `max_vl_num` is.
    pub vl_cap: u8,
    /// The P_Key table; 0: an empty entry.
    pub p_keys: Vec<u16>,
    /// The used entries of the GID table, by index.
    pub gids: Vec<(u16, [u8; 16])>,
    /// Entries of the GID table.
    pub gid_tbl_len: u16,
    /// By service level, the virtual lane; 15: packets are dropped.
    pub lanes: [u8; 16],
    /// P_KeyViolations: packets with a P_Key that is not their queue pair's, as the subnet manager
    /// sees them.
    #[serde(default)]
    pub p_key_violations: u16,
    /// Q_KeyViolations, likewise.
    #[serde(default)]
    pub q_key_violations: u16,
    /// Our end of the cable.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

/// One used entry of the GID table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GidEntry {
    /// Its place in the table, which it keeps as long as the address lives.
    pub index: u16,
    /// The GID in network order; an IPv4 address appears as `::ffff:a.b.c.d`.
    pub gid: [u8; 16],
    /// The address to which the sockets are bound.
    pub addr: IpAddr,
    /// The scope of a link-local address, else 0.
    pub scope_id: u32,
    /// The interface's index.
    pub ifindex: u32,
    /// The interface's name.
    pub ifname: String,
}
