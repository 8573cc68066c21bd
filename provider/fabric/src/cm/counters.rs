//! What went through the manager, by message, as the kernel shows it in `cm_tx_msgs`,
//! `cm_tx_retries`, `cm_rx_msgs` and `cm_rx_duplicates`.

use ferroce_wire::cm::attribute;

/// Kinds of messages, in the order of their attributes.
pub const KINDS: usize = (attribute::APR - attribute::REQ + 1) as usize;

/// Names of the kinds, in order, as the kernel's files have them.
pub const KIND_NAMES: [&str; KINDS] = [
    "req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr_req", "sidr_rep", "lap", "apr",
];

/// Sums since the manager was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sent, repetitions included.
    pub sent: [u64; KINDS],
    /// Sent again for want of an answer.
    pub retried: [u64; KINDS],
    /// Received.
    pub received: [u64; KINDS],
    /// Received again.
    pub duplicates: [u64; KINDS],
    /// Dropped: no message of this class.
    pub malformed: u64,
    /// Dropped or refused: for no ID of ours, or not from its peer.
    pub unknown: u64,
    /// Dropped: has no place in the state that its connection is in.
    pub unexpected: u64,
    /// Refused: more than the limits allow.
    pub refused: u64,
    /// Requests that were given up for newer ones.
    pub evicted: u64,
    /// Messages that a peer which has never answered was not sent.
    pub withheld: u64,
}

/// The kind of an attribute that is known.
pub(super) fn kind(attribute: u16) -> usize {
    usize::from(attribute.saturating_sub(attribute::REQ)).min(KINDS - 1)
}
