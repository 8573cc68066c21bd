//! Who accesses memory, and the stretches of it that keys give access to.

/// Who names a remote key: the queue pair that the request came to, and the domain it acts in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) pd: u32,
    pub(crate) qpn: u32,
}

/// A stretch of memory that a key gave access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Address in this process.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) len: usize,
    /// May only be used while the key table's answer is at hand: to be copied, not to be referred
    /// to.
    pub(crate) fleeting: bool,
}
