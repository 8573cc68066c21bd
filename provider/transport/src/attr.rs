//! The states and attributes of a queue pair, with the values of libibverbs.

use bitflags::bitflags;

use crate::{Access, EarlyMemory, QpType};

/// `enum ibv_qp_state`, same values.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum QpState {
    #[default]
    Reset = 0,
    Init = 1,
    Rtr = 2,
    Rts = 3,
    Sqd = 4,
    Sqe = 5,
    Err = 6,
}

impl TryFrom<u32> for QpState {
    type Error = u32;
    fn try_from(v: u32) -> Result<Self, u32> {
        use QpState::*;
        [Reset, Init, Rtr, Rts, Sqd, Sqe, Err]
            .get(v as usize)
            .copied()
            .ok_or(v)
    }
}

bitflags! {
    /// `enum ibv_qp_attr_mask`, same values.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct QpAttrMask: u32 {
        const STATE = 1 << 0;
        const CUR_STATE = 1 << 1;
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        const ACCESS_FLAGS = 1 << 3;
        const PKEY_INDEX = 1 << 4;
        const PORT = 1 << 5;
        const QKEY = 1 << 6;
        const AV = 1 << 7;
        const PATH_MTU = 1 << 8;
        const TIMEOUT = 1 << 9;
        const RETRY_CNT = 1 << 10;
        const RNR_RETRY = 1 << 11;
        const RQ_PSN = 1 << 12;
        const MAX_QP_RD_ATOMIC = 1 << 13;
        const ALT_PATH = 1 << 14;
        const MIN_RNR_TIMER = 1 << 15;
        const SQ_PSN = 1 << 16;
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        const PATH_MIG_STATE = 1 << 18;
        const CAP = 1 << 19;
        const DEST_QPN = 1 << 20;
    }
}

/// An address vector: stored and returned, never interpreted by the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// Destination GID, network byte order.
    pub dgid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Destination LID (InfiniBand link layer).
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Source path bits.
    pub src_path_bits: u8,
    /// Static rate, `enum ibv_rate`.
    pub static_rate: u8,
    /// A GRH is used (always with RoCE).
    pub is_global: bool,
    /// Port number, from 1.
    pub port_num: u8,
}

/// Queue capacities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCap {
    /// Outstanding send requests.
    pub max_send_wr: u32,
    /// Outstanding receive requests.
    pub max_recv_wr: u32,
    /// Gather elements a send request.
    pub max_send_sge: u32,
    /// Scatter elements a receive request.
    pub max_recv_sge: u32,
    /// Bytes of inline data a send request.
    pub max_inline_data: u32,
}

/// Attributes of a queue pair (`struct ibv_qp_attr`), host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct QpAttr {
    pub qp_state: QpState,
    pub cur_qp_state: QpState,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u32,
    /// 0 migrated, 1 rearm, 2 armed.
    pub path_mig_state: u32,
    pub qkey: u32,
    /// First PSN that the receive queue expects, 24 bits.
    pub rq_psn: u32,
    /// First PSN of the send queue, 24 bits.
    pub sq_psn: u32,
    /// Destination QP number, 24 bits.
    pub dest_qp_num: u32,
    pub qp_access_flags: Access,
    pub cap: QpCap,
    pub av: AddressVector,
    pub alt_av: AddressVector,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: bool,
    pub sq_draining: bool,
    /// READ and ATOMIC requests outstanding as requester.
    pub max_rd_atomic: u8,
    /// READ and ATOMIC requests accepted as responder.
    pub max_dest_rd_atomic: u8,
    /// RNR NAK timer code, 0–31.
    pub min_rnr_timer: u8,
    pub port_num: u8,
    /// Local ACK Timeout exponent, 0–31; 0 is infinite.
    pub timeout: u8,
    /// 0–7.
    pub retry_cnt: u8,
    /// 0–7; 7 retries for ever.
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
}

impl Default for QpAttr {
    fn default() -> Self {
        QpAttr {
            qp_state: QpState::Reset,
            cur_qp_state: QpState::Reset,
            path_mtu: 1024,
            path_mig_state: 0,
            qkey: 0,
            rq_psn: 0,
            sq_psn: 0,
            dest_qp_num: 0,
            qp_access_flags: Access::empty(),
            cap: QpCap::default(),
            av: AddressVector::default(),
            alt_av: AddressVector::default(),
            pkey_index: 0,
            alt_pkey_index: 0,
            en_sqd_async_notify: false,
            sq_draining: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port_num: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            alt_port_num: 0,
            alt_timeout: 0,
        }
    }
}

/// What a queue pair is created with; none of it changes later, but the port's MTU.
#[derive(Clone, Copy, Debug, Default)]
pub struct QpConfig {
    /// Queue pair number, 24 bits.
    pub qpn: u32,
    /// Transport service.
    pub qp_type: QpType,
    /// Queue capacities.
    pub cap: QpCap,
    /// Every send request is signaled.
    pub sq_sig_all: bool,
    /// Receives come from a shared receive queue.
    pub srq: bool,
    /// UD: bytes of the longest message, the port's MTU, until
    /// [`Qp::limit_datagrams`](crate::Qp::limit_datagrams) says otherwise. Not looked at otherwise.
    pub mtu: u32,
    /// Seeds the jitter of timers, nothing else.
    pub seed: u64,
    /// Local ACK Timeouts are so many times as long as the attributes say, for peers that somebody
    /// stops; 0 and 1: as they say.
    pub stretch: u32,
    /// Where a reliable service keeps request packets that come early. With it, selective
    /// acknowledgements are understood and spoken with a peer that does so too; without, a loss is
    /// recovered from by going back (go-back-N), as the specification has it.
    pub selective: Option<&'static EarlyMemory>,
    /// The peer may be one that understands selective acknowledgements, whoever it is: it is shown
    /// from the first request on that this side does, until its first answer. Else once
    /// [`Qp::introduce`](crate::Qp::introduce) says so.
    pub introduced: bool,
}
