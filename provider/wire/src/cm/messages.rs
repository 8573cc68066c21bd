//! The messages' contents, in host byte order. Fields keep the specification's names; widths are
//! said where they are not the type's.

use crate::mad::Gid;
use std::fmt;

/// Private data of a message: always whole, as on the wire, where nothing says how much of it is
/// used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PrivateData<const N: usize>(pub [u8; N]);

impl<const N: usize> PrivateData<N> {
    /// `data`, followed by zeros; `None` if it is too long.
    pub fn new(data: &[u8]) -> Option<PrivateData<N>> {
        let mut bytes = [0; N];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(PrivateData(bytes))
    }
}

impl<const N: usize> Default for PrivateData<N> {
    fn default() -> Self {
        PrivateData([0; N])
    }
}

impl<const N: usize> std::ops::Deref for PrivateData<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for PrivateData<N> {
    /// In hexadecimal, up to the last byte that is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
        self.0[..used]
            .iter()
            .try_for_each(|b| write!(f, "{b:02x}"))?;
        write!(f, "({N})")
    }
}

/// Enhanced connection establishment: who defines the attributes, and the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    /// Vendor, 24 bits; 0 for none.
    pub vendor_id: u32,
    /// The vendor's attributes; the attribute modifier of the MAD.
    pub attributes: u32,
}

/// The transport service that a REQ asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// Extended reliable connection.
    Xrc,
}

/// A path, as a REQ describes it; "local" is the REQ's sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReqPath {
    /// LID of the sender's port; 0xffff where the path leaves the subnet, and with RoCE.
    pub local_lid: u16,
    /// LID of the receiver's port.
    pub remote_lid: u16,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Packet rate, 6 bits, as `ibv_rate` has it.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// The path stays in its subnet.
    pub subnet_local: bool,
    /// Local ACK timeout, 5 bits: 4.096 µs · 2^n.
    pub local_ack_timeout: u8,
}

/// Request for communication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Req {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// What is asked for.
    pub service_id: u64,
    /// GUID of the sender's channel adapter.
    pub ca_guid: u64,
    /// Q_Key, of datagram services.
    pub local_qkey: u32,
    /// The sender's QP, 24 bits.
    pub local_qpn: u32,
    /// RDMA READs and atomics that the sender will accept at a time.
    pub responder_resources: u8,
    /// EE context of the sender, 24 bits.
    pub local_eecn: u32,
    /// RDMA READs and atomics that the sender wants to have outstanding.
    pub initiator_depth: u8,
    /// EE context of the receiver, 24 bits.
    pub remote_eecn: u32,
    /// Time within which the receiver should answer, 5 bits: 4.096 µs · 2^n.
    pub remote_response_timeout: u8,
    /// Transport service.
    pub transport: Transport,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// First PSN that the receiver shall send, 24 bits.
    pub starting_psn: u32,
    /// Time within which the sender will answer, 5 bits: 4.096 µs · 2^n.
    pub local_response_timeout: u8,
    /// Retries of the transport, 3 bits.
    pub retry_count: u8,
    /// P_Key.
    pub pkey: u16,
    /// Path MTU, 4 bits, as `ibv_mtu` has it (1: 256 bytes … 5: 4,096).
    pub mtu: u8,
    /// A reliable datagram channel exists.
    pub rdc_exists: bool,
    /// RNR retries, 3 bits.
    pub rnr_retry_count: u8,
    /// How often the sender sends a message again before it gives up, 4 bits.
    pub max_cm_retries: u8,
    /// The sender's QP has a shared receive queue.
    pub srq: bool,
    /// The path.
    pub primary: ReqPath,
    /// The alternate path; all zeros for none.
    pub alternate: ReqPath,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// The consumer's.
    pub private_data: PrivateData<92>,
}

/// Message receipt acknowledgement: the answer will take longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mra {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// What is acknowledged, see [`about`](super::about).
    pub message: u8,
    /// How much longer, 5 bits: 4.096 µs · 2^n.
    pub service_timeout: u8,
    /// The consumer's.
    pub private_data: PrivateData<222>,
}

/// Rejection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rej {
    /// The sender's name for the connection; 0 if it has none.
    pub local_comm_id: u32,
    /// The receiver's; 0 if it is not known.
    pub remote_comm_id: u32,
    /// What is rejected, see [`about`](super::about).
    pub message: u8,
    /// Bytes of `ari` that are used, 7 bits; as sent, which may be more than there are.
    pub ari_len: u8,
    /// Why, see [`reject`](super::reject).
    pub reason: u16,
    /// Additional rejection information.
    pub ari: PrivateData<72>,
    /// The consumer's.
    pub private_data: PrivateData<148>,
}

/// Reply to a request for communication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rep {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// Q_Key, of datagram services.
    pub local_qkey: u32,
    /// The sender's QP, 24 bits; 0 with XRC.
    pub local_qpn: u32,
    /// EE context of the sender, 24 bits; with XRC, its QP.
    pub local_eecn: u32,
    /// First PSN that the receiver shall send, 24 bits.
    pub starting_psn: u32,
    /// RDMA READs and atomics that the sender will accept at a time.
    pub responder_resources: u8,
    /// RDMA READs and atomics that the sender will have outstanding.
    pub initiator_depth: u8,
    /// Target ACK delay, 5 bits: 4.096 µs · 2^n.
    pub target_ack_delay: u8,
    /// Failover, 2 bits: 0 accepted, 1 not supported, 2 refused.
    pub failover_accepted: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// RNR retries, 3 bits.
    pub rnr_retry_count: u8,
    /// The sender's QP has a shared receive queue.
    pub srq: bool,
    /// GUID of the sender's channel adapter.
    pub ca_guid: u64,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// The consumer's.
    pub private_data: PrivateData<196>,
}

/// Ready to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rtu {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// The consumer's.
    pub private_data: PrivateData<224>,
}

/// Request for release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dreq {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// The receiver's QP, 24 bits.
    pub remote_qpn: u32,
    /// The consumer's.
    pub private_data: PrivateData<220>,
}

/// Reply to a request for release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drep {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// The consumer's.
    pub private_data: PrivateData<224>,
}

/// Service ID resolution request: which QP offers a datagram service?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SidrReq {
    /// The sender's name for the request.
    pub request_id: u32,
    /// P_Key of the service.
    pub pkey: u16,
    /// What is asked for.
    pub service_id: u64,
    /// The consumer's.
    pub private_data: PrivateData<216>,
}

/// Service ID resolution response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SidrRep {
    /// The request's name.
    pub request_id: u32,
    /// See [`sidr_status`](super::sidr_status).
    pub status: u8,
    /// Bytes of `info` that are used; as sent, which may be more than there are.
    pub info_len: u8,
    /// The QP, 24 bits.
    pub qpn: u32,
    /// What was asked for.
    pub service_id: u64,
    /// Its Q_Key.
    pub qkey: u32,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// Additional information.
    pub info: PrivateData<72>,
    /// The consumer's.
    pub private_data: PrivateData<136>,
}

/// Load alternate path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lap {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// The receiver's QP, 24 bits.
    pub remote_qpn: u32,
    /// Time within which the receiver should answer, 5 bits: 4.096 µs · 2^n.
    pub remote_response_timeout: u8,
    /// The path.
    pub alternate: ReqPath,
    /// The consumer's.
    pub private_data: PrivateData<168>,
}

/// Alternate path response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apr {
    /// The sender's name for the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// Bytes of `info` that are used; as sent, which may be more than there are.
    pub info_len: u8,
    /// See [`apr_status`](super::apr_status).
    pub status: u8,
    /// Additional information.
    pub info: PrivateData<72>,
    /// The consumer's.
    pub private_data: PrivateData<148>,
}
