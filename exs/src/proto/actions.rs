//! What the machine is given and what it answers with.

use super::message::Header;

/// What the machine may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Whether message boundaries are kept.
    pub messages: bool,
    /// The peer's receive slots for data messages.
    pub peer_data: u16,
    /// The peer's receive slots for control messages.
    pub peer_control: u16,
    /// Our receive slots for data messages.
    pub own_data: u16,
    /// Our receive slots for control messages.
    pub own_control: u16,
    /// Bytes of payload in a data message.
    pub payload: u64,
    /// Data messages that may be posted at once.
    pub data_posts: usize,
    /// Control messages that may be posted at once.
    pub control_posts: usize,
    /// RDMA READs and WRITEs that may be posted at once.
    pub rdma_posts: usize,
    /// Bytes of one RDMA READ or WRITE.
    pub piece: u64,
    /// Whether the peer takes `Data` and `Written` as immediate data.
    pub immediates: bool,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Done,
    /// The connection broke.
    Reset,
    /// The peer takes no more.
    Refused,
    /// This end was told to take no more.
    Canceled,
}

/// What the driver must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Post a message.
    Send {
        /// Its header; with `expose` the address is an offset, to which the base and the key are to
        /// be added.
        header: Header,
        /// Whose memory the header names.
        expose: Option<Expose>,
        /// The bytes behind a Data header: send operation and offset (the length is the header's).
        payload: Option<(u64, u64)>,
        /// Instead of the header's bytes: immediate data that say as much.
        immediate: Option<u32>,
    },
    /// Post an RDMA WRITE from a send operation's memory.
    Write {
        /// The send operation.
        op: u64,
        /// Offset in its memory.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Where to, at the peer.
        address: u64,
        /// The peer's key.
        key: u32,
        /// Immediate data, which tells the peer of it; without, a message follows.
        immediate: Option<u32>,
    },
    /// Post an RDMA READ into a receive operation's memory, or, where that is not registered, into
    /// memory of the driver's own, of [`ASIDE`](super::ASIDE) bytes. One is under way into that at
    /// a time, and a `Fetch` follows.
    Read {
        /// The receive operation.
        op: u64,
        /// Offset in its memory.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Where from, at the peer.
        address: u64,
        /// The peer's key.
        key: u32,
    },
    /// Copy what an RDMA READ has put aside into a receive operation's memory.
    Fetch {
        /// The receive operation.
        op: u64,
        /// Offset in its memory.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Copy from a slot into a receive operation's memory.
    Copy {
        /// The receive operation.
        op: u64,
        /// Offset in its memory.
        offset: u64,
        /// The slot.
        slot: u32,
        /// Offset in the slot.
        start: u64,
        /// Bytes.
        length: u64,
    },
    /// Post a receive slot again.
    Repost {
        /// The slot.
        slot: u32,
    },
    /// A send operation is over.
    Sent {
        /// Which; always the oldest.
        op: u64,
        /// Bytes that went out.
        length: u64,
        /// How it ended.
        outcome: Outcome,
    },
    /// A receive operation is over.
    Received {
        /// Which; always the oldest.
        op: u64,
        /// Bytes in its memory.
        length: u64,
        /// The message was larger than the memory.
        truncated: bool,
        /// The message ended here (always false for a stream).
        end: bool,
        /// The stream has ended and this took nothing more of it.
        eof: bool,
        /// How it ended.
        outcome: Outcome,
    },
}

/// Whose memory a header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expose {
    /// A send operation's, to be read.
    Source(u64),
    /// A receive operation's, to be written.
    Sink(u64),
}

/// The peer broke the rules; the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the protocol: {0}")]
pub struct Violation(pub &'static str);
