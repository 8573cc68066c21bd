//! One rdma_cm id: what a program has said of it and how far it has come. What the commands do to
//! it is elsewhere.

use ferroce_control::random::random;
use ferroce_fabric::cm::{CmId, Path};

use super::addr::{Addr, Gid};
use super::events::{Detail, Kind};
use super::ports::Port;
use crate::next_hop::Hop;

/// How far an id has come, in the kernel's terms. Over Ethernet, resolving happens at once, but for
/// neighbours of which nothing is known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// New.
    Idle,
    /// It has an address and a port.
    Bound,
    /// It knows its device and the way to the destination.
    AddrResolved,
    /// It waits for the way to the destination: the subnet administrator's answer, or that of the
    /// neighbour.
    AddrQuery,
    /// It asks one for a path.
    RouteQuery,
    /// It has a path.
    RouteResolved,
    /// It is being connected, or is connected.
    Connect,
    /// It was.
    Disconnect,
    /// It takes requests.
    Listen,
    /// Its device has gone.
    Removed,
}

/// `enum ibv_qp_type`.
pub(super) mod qp_type {
    /// `IBV_QPT_RC`.
    pub(crate) const RC: u8 = 2;
    /// `IBV_QPT_UC`.
    pub(crate) const UC: u8 = 3;
    /// `IBV_QPT_UD`.
    pub(crate) const UD: u8 = 4;
    /// `IBV_QPT_XRC_SEND`.
    pub(crate) const XRC_SEND: u8 = 9;
    /// `IBV_QPT_XRC_RECV`.
    pub(crate) const XRC_RECV: u8 = 10;
}

/// An id.
#[derive(Debug)]
pub(super) struct Id {
    /// The channel whose events it raises.
    pub channel: u64,
    /// What the program wants to find in its events; 0: it has not said yet, and gets none.
    pub uid: u64,
    /// Whether the program knows of it; a connection request does not exist before its event was
    /// fetched.
    pub known: bool,
    /// `RDMA_PS_*`.
    pub space: u16,
    /// `enum ibv_qp_type`.
    pub qp_type: u8,
    /// How far it has come.
    pub state: State,
    /// Own address.
    pub src: Addr,
    /// The peer's.
    pub dst: Addr,
    /// Whether `src` stands for all addresses.
    pub any: bool,
    /// The device's GID, if it is bound to the device.
    pub gid_index: Option<u16>,
    /// Whether that one has gone.
    pub displaced: bool,
    /// Who asked for it, as far as a request tells; `None`: the program did.
    pub peer: Option<Gid>,
    /// The peer's GID, if that is no matter of its address: over InfiniBand.
    pub remote_gid: Option<Gid>,
    /// The number of what it asks the subnet administrator.
    pub asks: Option<u32>,
    /// The next hop on the way to the peer, while its hardware address is looked for.
    pub seeks: Option<Hop>,
    /// The way to the peer.
    pub path: Option<Path>,
    /// Its claim to a port.
    pub port: Option<Port>,
    /// `RDMA_OPTION_ID_TOS`.
    pub tos: Option<u8>,
    /// `RDMA_OPTION_ID_ACK_TIMEOUT`.
    pub ack_timeout: Option<u8>,
    /// `RDMA_OPTION_ID_REUSEADDR`.
    pub reuse: bool,
    /// `RDMA_OPTION_ID_AFONLY`.
    pub afonly: Option<bool>,
    /// How many more requests may wait.
    pub backlog: u32,
    /// The service to which it listens.
    pub service: Option<u64>,
    /// The service to which it may come to listen.
    pub awaited: Option<u64>,
    /// Its part in the CM protocol.
    pub cm: Option<CmId>,
    /// Starting PSN, 24 bits.
    pub psn: u32,
    /// Q_Key for datagrams; 0: not decided.
    pub qkey: u32,
    /// The QP's number, for datagrams.
    pub qp_num: u32,
    /// The last event that it had before it had a name to be called by in events.
    pub missed: Option<(Kind, i32, Detail)>,
    /// How many of its events the program has fetched.
    pub reported: u32,
    /// Its multicast groups.
    pub groups: Vec<u32>,
}

impl Id {
    /// A new one.
    pub(super) fn new(channel: u64, uid: u64, space: u16, qp_type: u8) -> Self {
        Self {
            channel,
            uid,
            known: true,
            space,
            qp_type,
            state: State::Idle,
            src: Addr::None,
            dst: Addr::None,
            any: false,
            gid_index: None,
            displaced: false,
            peer: None,
            remote_gid: None,
            asks: None,
            seeks: None,
            path: None,
            port: None,
            tos: None,
            ack_timeout: None,
            reuse: false,
            afonly: None,
            backlog: 0,
            service: None,
            awaited: None,
            cm: None,
            psn: random::<u32>() & 0x00ff_ffff,
            qkey: 0,
            qp_num: 0,
            missed: None,
            reported: 0,
            groups: Vec::new(),
        }
    }

    /// Whether its QP is for datagrams.
    pub(super) fn is_datagram(&self) -> bool {
        self.qp_type == qp_type::UD
    }

    /// Service ID of an address in its port space.
    pub(super) fn service_id(&self, addr: &Addr) -> u64 {
        match addr {
            Addr::Ib(ib) => ib.sid,
            _ => u64::from(self.space) << 16 | u64::from(addr.port()),
        }
    }

    /// Bytes of private data that the IP header of the RDMA IP CM service takes.
    pub(super) fn header_len(&self) -> usize {
        match self.src {
            Addr::Ib(_) => 0,
            _ => ferroce_fabric::ipcm::HEADER_LEN,
        }
    }
}
