//! The vocabulary of the transport: work requests, completions, attributes, and the traits through
//! which a queue pair asks its host (the engine, or a simulator) to act for it.
//!
//! Nothing here does I/O, reads a clock or touches user memory.

use bitflags::bitflags;
use ferroce_wire::{Bth, Ext};

/// A point in time, in nanoseconds on a monotonic clock of the caller's choice.
pub type Time = u64;

/// One element of a scatter/gather list; the layout of `struct ibv_sge` (host byte order).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Start address in the process (or the MR's I/O virtual address space).
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Local key of the memory region.
    pub lkey: u32,
}

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with 32 bits of immediate data, carried as the bytes stand in memory.
    SendWithImm([u8; 4]),
    /// SEND with invalidate of a remote key.
    SendWithInv(u32),
    /// RDMA WRITE to a remote address.
    Write {
        /// Remote virtual address.
        va: u64,
        /// Remote key.
        rkey: u32,
    },
    /// RDMA WRITE with immediate data.
    WriteWithImm {
        /// Remote virtual address.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Immediate data, as the bytes stand in memory.
        imm: [u8; 4],
    },
    /// RDMA READ from a remote address.
    Read {
        /// Remote virtual address.
        va: u64,
        /// Remote key.
        rkey: u32,
    },
    /// COMPARE & SWAP of 8 bytes.
    CompareSwap {
        /// Remote virtual address, 8-byte aligned.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Value compared with.
        compare: u64,
        /// Value stored on equality.
        swap: u64,
    },
    /// FETCH & ADD of 8 bytes.
    FetchAdd {
        /// Remote virtual address, 8-byte aligned.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Value added.
        add: u64,
    },
    /// Local invalidate of a key; nothing is sent.
    LocalInv(u32),
}

bitflags! {
    /// `enum ibv_send_flags`, same values.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// Wait for earlier RDMA READs and ATOMICs (C10-78).
        const FENCE = 1;
        /// Raise a completion on success.
        const SIGNALED = 2;
        /// Set the solicited event bit on the last packet.
        const SOLICITED = 4;
        /// The payload was taken when the request was posted.
        const INLINE = 8;
    }
}

/// Where the payload of a send request is.
#[derive(Clone, Copy, Debug)]
pub enum SendData<'a> {
    /// A gather list (for READ and ATOMIC: the scatter list of the answer).
    Sges(&'a [Sge]),
    /// The bytes themselves, copied when posted (`IBV_SEND_INLINE`).
    Inline(&'a [u8]),
}

/// A send work request as it is posted.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// The consumer's identifier, returned in the completion.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// Flags.
    pub flags: SendFlags,
    /// The payload.
    pub data: SendData<'a>,
}

/// `enum ibv_wc_status`, same values.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum WcStatus {
    Success = 0,
    LocLenErr = 1,
    LocQpOpErr = 2,
    LocEecOpErr = 3,
    LocProtErr = 4,
    WrFlushErr = 5,
    MwBindErr = 6,
    BadRespErr = 7,
    LocAccessErr = 8,
    RemInvReqErr = 9,
    RemAccessErr = 10,
    RemOpErr = 11,
    RetryExcErr = 12,
    RnrRetryExcErr = 13,
    LocRddViolErr = 14,
    RemInvRdReqErr = 15,
    RemAbortErr = 16,
    InvEecnErr = 17,
    InvEecStateErr = 18,
    FatalErr = 19,
    RespTimeoutErr = 20,
    GeneralErr = 21,
}

/// `enum ibv_wc_opcode`, same values.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum WcOpcode {
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    CompSwap = 3,
    FetchAdd = 4,
    BindMw = 5,
    LocalInv = 6,
    Recv = 128,
    RecvRdmaWithImm = 129,
}

/// What a receive completion carries beside its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WcData {
    /// Nothing.
    #[default]
    None,
    /// Immediate data, bytes as sent (`IBV_WC_WITH_IMM`).
    Imm([u8; 4]),
    /// The key that was invalidated (`IBV_WC_WITH_INV`).
    Invalidated(u32),
}

/// A work completion. The host adds the QP number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// From the work request.
    pub wr_id: u64,
    /// Outcome.
    pub status: WcStatus,
    /// Operation.
    pub opcode: WcOpcode,
    /// Bytes received (receive side and READ/ATOMIC); undefined on error.
    pub byte_len: u32,
    /// Immediate data or invalidated key.
    pub data: WcData,
    /// The message asked for a solicited event (or the status is an error).
    pub solicited: bool,
    /// Remote QP number.
    pub src_qp: u32,
}

/// A receive work request taken from a shared receive queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// From the work request.
    pub wr_id: u64,
    /// Scatter list.
    pub sges: smallvec::SmallVec<[Sge; 1]>,
}

bitflags! {
    /// Memory access rights; `enum ibv_access_flags`, same values.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Access: u32 {
        /// The adapter may write for the local consumer.
        const LOCAL_WRITE = 1;
        /// A peer may write.
        const REMOTE_WRITE = 2;
        /// A peer may read.
        const REMOTE_READ = 4;
        /// A peer may do atomics.
        const REMOTE_ATOMIC = 8;
        /// Memory windows may be bound.
        const MW_BIND = 16;
        /// Addresses count from zero.
        const ZERO_BASED = 32;
        /// On-demand paging.
        const ON_DEMAND = 64;
        /// Huge pages.
        const HUGETLB = 128;
        /// Relaxed ordering allowed.
        const RELAXED_ORDERING = 1 << 20;
    }
}

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
        const RATE_LIMIT = 1 << 25;
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
    /// Expected PSN of the receive queue, 24 bits.
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

/// Affiliated asynchronous events of a queue pair; `enum ibv_event_type` values.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpEvent {
    /// `IBV_EVENT_QP_FATAL`.
    Fatal = 1,
    /// `IBV_EVENT_QP_REQ_ERR`: invalid request at the responder.
    ReqErr = 2,
    /// `IBV_EVENT_QP_ACCESS_ERR`: access violation at the responder.
    AccessErr = 3,
    /// `IBV_EVENT_COMM_EST`: a packet came while in RTR.
    CommEst = 4,
    /// `IBV_EVENT_SQ_DRAINED`.
    SqDrained = 5,
    /// `IBV_EVENT_QP_LAST_WQE_REACHED` (QP on an SRQ went to error).
    LastWqeReached = 16,
}

/// Why an access to memory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// No such key, or the key belongs to another protection domain.
    Key,
    /// The range leaves the region.
    Bounds,
    /// The region (or QP) does not allow this access.
    Rights,
    /// The memory could not be read or written (it was unmapped since).
    Fault,
}

/// What happened on the path, for congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSignal {
    /// Bytes left the network; `rtt` in nanoseconds where one was measured.
    Acked {
        /// Payload bytes newly acknowledged.
        bytes: u32,
        /// Round-trip time, if this acknowledgement gave a sample.
        rtt: Option<u64>,
    },
    /// A gap was seen (PSN sequence error NAK, or missing response).
    Loss,
    /// The Local ACK Timeout fired.
    Timeout,
}

/// Something that changes nothing and is worth counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A request came again that had been carried out.
    Duplicate,
    /// A request came ahead of an earlier one.
    OutOfSequence,
}

/// Where the payload of an outgoing packet is to be gathered from.
#[derive(Clone, Copy, Debug)]
pub enum Gather<'a> {
    /// No payload.
    None,
    /// `len` bytes from `offset` in the concatenation of a local gather list.
    Sges {
        /// The whole list of the work request.
        sges: &'a [Sge],
        /// Offset in bytes into the list's concatenation.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// The bytes themselves (inline data).
    Bytes(&'a [u8]),
    /// `len` bytes at a remote key's address (READ response).
    Remote {
        /// Key the peer named.
        rkey: u32,
        /// Address in the region.
        va: u64,
        /// Bytes.
        len: u32,
    },
}

/// An outgoing packet. Pad count and ICRC are the sink's to compute.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket<'a> {
    /// Base transport header; `pad` is already right for the payload length.
    pub bth: Bth,
    /// Extended headers that the opcode calls for.
    pub ext: Ext,
    /// The payload.
    pub payload: Gather<'a>,
    /// Sent before (a retransmission, or a replayed response): gather a stable copy.
    pub again: bool,
}

/// Takes outgoing packets.
pub trait Sink {
    /// Gathers and queues one packet. On an error nothing was sent and the packet's work request fails
    /// (local protection error for [`Gather::Sges`], remote access error for [`Gather::Remote`]).
    fn packet(&mut self, packet: &TxPacket<'_>) -> Result<(), MemoryError>;
}

/// What a queue pair needs from whoever hosts it. Every method carries out an instruction at once.
pub trait Host {
    /// May the peer do `access` to `len` bytes at `va` under `rkey`? Checks key, protection domain, bounds and the region's rights.
    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), MemoryError>;
    /// Places RDMA WRITE payload, in address order, the last bytes with release semantics.
    fn write_remote(&mut self, rkey: u32, va: u64, data: &[u8]) -> Result<(), MemoryError>;
    /// Atomically compares and swaps 8 bytes in host byte order; returns the value before.
    fn compare_swap(
        &mut self,
        rkey: u32,
        va: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, MemoryError>;
    /// Atomically adds to 8 bytes in host byte order; returns the value before.
    fn fetch_add(&mut self, rkey: u32, va: u64, add: u64) -> Result<u64, MemoryError>;
    /// Invalidates a remote key (SEND with invalidate).
    fn invalidate_remote(&mut self, rkey: u32) -> Result<(), MemoryError>;
    /// Invalidates a key for the local consumer.
    fn invalidate_local(&mut self, key: u32) -> Result<(), MemoryError>;
    /// May the local consumer do `access` (empty: read) to all of the list?
    fn check_local(&mut self, sges: &[Sge], access: Access) -> Result<(), MemoryError>;
    /// Scatters `data` at `offset` in the concatenation of a local list.
    fn scatter(&mut self, sges: &[Sge], offset: u32, data: &[u8]) -> Result<(), MemoryError>;
    /// Takes the next request of the shared receive queue (only called for QPs with an SRQ).
    fn take_srq(&mut self) -> Option<RecvWqe>;
    /// Raises a completion on the send CQ.
    fn complete_send(&mut self, completion: Completion);
    /// Raises a completion on the receive CQ.
    fn complete_recv(&mut self, completion: Completion);
    /// Raises an asynchronous event.
    fn event(&mut self, event: QpEvent);
    /// Feeds congestion control.
    fn path_signal(&mut self, signal: PathSignal);
    /// Counts.
    fn note(&mut self, note: Note) {
        let _ = note;
    }
}
