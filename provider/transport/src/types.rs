//! The vocabulary of the data path: work requests, completions, access rights, with the values of
//! libibverbs.

use bitflags::bitflags;
use ferroce_wire::{Feth, Reth};

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
    /// ATOMIC WRITE: stores 8 bytes at once. The answer to it is awaited like a READ's.
    AtomicWrite {
        /// Remote virtual address, 8-byte aligned.
        va: u64,
        /// Remote key.
        rkey: u32,
    },
    /// FLUSH: answered when what was written before is where it asks for. The answer is awaited
    /// like a READ's.
    Flush(Flush),
    /// Local invalidate of a key; nothing is sent.
    LocalInv(u32),
    /// Bind of a memory window; nothing is sent.
    BindMw(WindowBind),
}

/// Longest range of a FLUSH, in bytes: what a RETH may name (C9-94), as no byte of it is sent.
pub const MAX_FLUSH: u32 = 1 << 31;

/// What a FLUSH asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Remote virtual address of the range.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes of the range, at most [`MAX_FLUSH`].
    pub len: u32,
    /// Where what was written has to be.
    pub placement: Placement,
    /// How much of what the key names.
    pub selectivity: Selectivity,
}

impl Flush {
    /// What the headers of a request ask for; `None` if there is no placement or a value that is
    /// reserved.
    pub(crate) fn parse(feth: Feth, reth: Reth) -> Option<Flush> {
        let flush = Flush {
            va: reth.va,
            rkey: reth.rkey,
            len: reth.len,
            placement: Placement::from_bits(feth.placement)?,
            selectivity: match feth.selectivity {
                0 => Selectivity::Range,
                1 => Selectivity::Region,
                _ => return None,
            },
        };
        flush.is_sound().then_some(flush)
    }

    /// Does it ask for something, and for no more than there can be?
    pub(crate) fn is_sound(&self) -> bool {
        !self.placement.is_empty() && self.len <= MAX_FLUSH
    }

    pub(crate) fn headers(&self) -> (Feth, Reth) {
        let feth = Feth {
            placement: self.placement.bits(),
            selectivity: self.selectivity as u8,
        };
        let reth = Reth {
            va: self.va,
            rkey: self.rkey,
            len: self.len,
        };
        (feth, reth)
    }
}

bitflags! {
    /// Where a FLUSH has data placed; `enum ibv_placement_type`, same values.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Placement: u8 {
        /// Where every processor and device of the host sees it.
        const GLOBAL = 1;
        /// Where it outlives a loss of power.
        const PERSISTENT = 2;
    }
}

impl Placement {
    /// The rights that queue pair and key must give.
    pub fn access(self) -> Access {
        let mut access = Access::empty();
        access.set(Access::FLUSH_GLOBAL, self.contains(Placement::GLOBAL));
        access.set(
            Access::FLUSH_PERSISTENT,
            self.contains(Placement::PERSISTENT),
        );
        access
    }
}

/// How much of what its key names a FLUSH is about; `enum ibv_selectivity_level`, same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selectivity {
    /// The range.
    #[default]
    Range = 0,
    /// All of it; address and length say nothing.
    Region = 1,
}

/// A bind of a memory window (`struct ibv_mw_bind_info`). A length of zero unbinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowBind {
    /// Handle of the window: the host's name for it.
    pub window: u32,
    /// The remote key from then on (type 2); 0 for type 1, where the host chose it beforehand.
    pub rkey: u32,
    /// Local key of the memory region.
    pub lkey: u32,
    /// Rights of the window.
    pub access: Access,
    /// Start address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Where a send request goes, beside the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dest {
    /// To the connected peer (RC, UC).
    #[default]
    Connected,
    /// To whom an address handle names (UD).
    Datagram(Datagram),
    /// To the connected peer's shared receive queue of this number, 24 bits (XRC initiator).
    XrcSrq(u32),
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// The host's token for an address handle.
    pub ah: u32,
    /// What the consumer says was given when the handle was made, so that a token that was
    /// overwritten is not taken for another's.
    pub cookie: u32,
    /// Destination queue pair, 24 bits.
    pub qpn: u32,
    /// Q_Key; if bit 31 is set the queue pair's own is used instead.
    pub qkey: u32,
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
    /// Where it goes.
    pub dest: Dest,
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
    Flush = 8,
    AtomicWrite = 9,
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
    /// A GRH of 40 bytes stands before the payload (`IBV_WC_GRH`).
    pub grh: bool,
    /// XRC target: number of the shared receive queue whose CQ takes the completion; 0 otherwise.
    pub srq: u32,
    /// Requests that have left the queue pair's queue until now, this one included, modulo 2^32.
    /// Means nothing where it was of a shared receive queue.
    pub count: u32,
}

/// A receive work request taken from a shared receive queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// From the work request.
    pub wr_id: u64,
    /// Scatter list.
    pub sges: smallvec::SmallVec<[Sge; 1]>,
    /// Bytes at the start of the message that the host has taken out itself: they are not placed
    /// and do not count in the completion's length.
    pub skip: u32,
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
        /// A peer may flush to global visibility.
        const FLUSH_GLOBAL = 256;
        /// A peer may flush to persistence.
        const FLUSH_PERSISTENT = 512;
        /// Relaxed ordering allowed.
        const RELAXED_ORDERING = 1 << 20;
    }
}
