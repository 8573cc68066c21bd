//! The traits through which a queue pair asks its host (the engine, or a simulator) to act for it.
//!
//! Nothing here does I/O, reads a clock or touches user memory.

use ferroce_wire::{Bth, Ext, Octets};

use crate::{Access, Completion, Duration, Flush, RecvWqe, Sge, WindowBind};

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
    /// The address handle is gone, or of another protection domain (UD).
    Address,
}

/// What happened on the path, for congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSignal {
    /// Bytes left the network.
    Acked {
        /// Payload bytes newly acknowledged.
        bytes: u32,
        /// Round-trip time, if this acknowledgement gave a sample.
        rtt: Option<Duration>,
    },
    /// A gap was seen (PSN sequence error NAK, or missing response).
    Loss,
    /// Packets were lost and are sent again one by one: others have come that were sent later.
    Lost {
        /// Their payload bytes.
        bytes: u32,
    },
    /// The Local ACK Timeout fired.
    Timeout,
    /// The peer says by a CNP that a packet of ours came to it with a mark of congestion.
    Notified,
}

/// Something that changes nothing and is worth counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A request came again that had been carried out.
    Duplicate,
    /// A request came ahead of an earlier one.
    OutOfSequence,
    /// A datagram was dropped for its Q_Key (UD).
    QkeyViolation,
    /// A message was dropped for want of a receive request (UC, UD).
    NoReceive,
    /// A message was dropped as longer than the receive request (UC, UD).
    TooLong,
    /// A message, or what was left of one, was dropped after a gap (UC).
    UcLoss,
    /// A packet came with a mark of congestion.
    Marked,
    /// The peer was told of one, by a CNP.
    Notified,
    /// A message was dropped as malformed or for want of a right (UC, UD): reliable services send a
    /// NAK instead.
    Refused,
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

/// An outgoing packet. Pad, filler and ICRC are the sink's to make.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket<'a> {
    /// Base transport header; `pad` is already right for the payload length.
    pub bth: Bth,
    /// Extended headers that the opcode calls for.
    pub ext: Ext,
    /// The payload.
    pub payload: Gather<'a>,
    /// Bytes behind it that fill the packet ([`Bth::filled`]).
    pub filler: u16,
    /// Packets that it stands for: 1, or more if it is a stretch
    /// ([`TransmitOpts::stretch`](crate::TransmitOpts::stretch)).
    pub packets: u32,
    /// Sent before (a retransmission, or a replayed response): gather a stable copy.
    pub again: bool,
    /// UD: the host's token for the address handle that says where to. `None`: to the connected
    /// peer.
    pub ah: Option<u32>,
    /// XRC target: number of the shared receive queue whose protection domain guards
    /// [`Gather::Remote`]; 0 for the queue pair's own.
    pub srq: u32,
}

/// Takes outgoing packets.
pub trait Sink {
    /// Gathers and queues one packet. On an error nothing was sent and the packet's work request
    /// fails (local protection error for [`Gather::Sges`], remote access error for
    /// [`Gather::Remote`]).
    fn packet(&mut self, packet: &TxPacket<'_>) -> Result<(), MemoryError>;

    /// When it returns, nothing handed over refers to the consumer's memory any more. It is called
    /// before completions of requests that nobody acknowledges (UC, UD) are raised.
    fn flush(&mut self) {}
}

/// What a queue pair needs from whoever hosts it. Every method carries out an instruction at once.
pub trait Host {
    /// The request packet with this PSN, which came before an earlier one and was kept, is carried
    /// out next.
    fn carries_out(&mut self, _psn: u32) {}
    /// May the peer do `access` to `len` bytes at `va` under `rkey`? Checks key, protection domain,
    /// bounds and the region's rights.
    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), MemoryError>;
    /// Places RDMA WRITE payload, in address order, the last bytes with release semantics.
    fn write_remote(&mut self, rkey: u32, va: u64, data: Octets<'_>) -> Result<(), MemoryError>;
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
    /// Stores 8 bytes at an address that is a multiple of 8, so that nobody sees some of them
    /// without the others.
    fn write_word(&mut self, rkey: u32, va: u64, value: [u8; 8]) -> Result<(), MemoryError>;
    /// Sees to it that what has been written, by this connection or another, is where a FLUSH asks
    /// for; checks key, rights ([`Placement::access`](crate::Placement::access)) and range
    /// beforehand. `Fault`: it cannot be had.
    fn flush_remote(&mut self, flush: &Flush) -> Result<(), MemoryError>;
    /// Invalidates a remote key (SEND with invalidate).
    fn invalidate_remote(&mut self, rkey: u32) -> Result<(), MemoryError>;
    /// Invalidates a key for the local consumer.
    fn invalidate_local(&mut self, key: u32) -> Result<(), MemoryError>;
    /// Binds a memory window.
    fn bind_window(&mut self, bind: &WindowBind) -> Result<(), MemoryError>;
    /// XRC target: the request at hand is for the shared receive queue `srqn` of the queue pair's
    /// XRC domain. From then on the remote accesses go by that queue's protection domain, and
    /// `take_srq` takes from it. An error: there is no such queue.
    fn select_srq(&mut self, srqn: u32) -> Result<(), MemoryError>;
    /// May the local consumer do `access` (empty: read) to all of the list?
    fn check_local(&mut self, sges: &[Sge], access: Access) -> Result<(), MemoryError>;
    /// Scatters `data` at `offset` in the concatenation of the local list of a send request: the
    /// answer to a READ or ATOMIC.
    fn scatter(&mut self, sges: &[Sge], offset: u32, data: Octets<'_>) -> Result<(), MemoryError>;
    /// The same for the list of a receive request. One from a shared receive queue names memory of
    /// the protection domain of that queue, whatever the queue pair's is.
    fn scatter_received(
        &mut self,
        sges: &[Sge],
        offset: u32,
        data: Octets<'_>,
    ) -> Result<(), MemoryError>;
    /// Takes the next request of the shared receive queue (only called for QPs with an SRQ).
    fn take_srq(&mut self) -> Option<RecvWqe>;
    /// The same for a SEND (RC), whose first packet has this payload and, if `only`, is the whole
    /// message: a shared receive queue that matches tags chooses by it.
    fn take_srq_for(&mut self, payload: Octets<'_>, only: bool) -> Option<RecvWqe> {
        let _ = (payload, only);
        self.take_srq()
    }
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
