//! What can be tuned, and nothing of it follows from the specification: every number that was
//! chosen, with its unit.

use std::time::Duration;

/// AIMD: the least window of a path in bytes, however much it loses.
pub(crate) const MIN_WINDOW: u32 = 64 << 10;
/// AIMD: bytes by which the window grows for each window that is acknowledged, above the threshold.
pub(crate) const WINDOW_INCREASE: u64 = 4096;
/// AIMD: losses within this time of the last decrease are part of the same loss, or within a round
/// trip.
pub(crate) const DECREASE_INTERVAL: Duration = Duration::from_millis(2);
/// AIMD: a round trip so much longer than the shortest one seen means a standing queue. Scheduling
/// on a loaded machine alone makes several milliseconds.
pub(crate) const QUEUEING_DELAY: Duration = Duration::from_millis(10);
/// AIMD: round trips of less than so many times the shortest show no standing queue.
pub(crate) const SHORT_TRIP: u32 = 2;
/// AIMD: without a standing queue one byte in so many may be lost one by one, and the window stays.
pub(crate) const BORNE_LOSS: u64 = 16;
/// AIMD: tenths of the window that are left after a round trip with a standing queue.
pub(crate) const DECREASE_ON_DELAY: u32 = 9;
/// AIMD: tenths of the window that are left after a loss that was seen, or a CNP.
pub(crate) const DECREASE_ON_LOSS: u32 = 7;
/// AIMD: tenths of the window that are left after a Local ACK Timeout.
pub(crate) const DECREASE_ON_TIMEOUT: u32 = 5;

/// Pacing: most bytes on their way. More than this only fills caches.
pub(crate) const MAX_ALLOWANCE: u64 = 2 << 20;
/// Pacing: bytes that every path may have on its way.
pub(crate) const MIN_ALLOWANCE: u64 = 64 << 10;
/// Pacing: a sender that is held back asks again after this.
pub(crate) const ALLOWANCE_RETRY: Duration = Duration::from_micros(8);
/// Pacing: a receiver that takes nothing for so long is not waited for until it takes something. A
/// crowded machine keeps a process waiting for tens of milliseconds.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_millis(200);
/// Pacing: time in which a receiver of which nothing is known is sent an allowance.
pub(crate) const PACING_PERIOD: Duration = Duration::from_millis(1);
/// Pacing: bytes of the kernel's bookkeeping for a datagram in a receive buffer.
pub(crate) const BOOKKEEPING: u64 = 1024;

/// Delayed ACK: a request is an answer if it follows the received message within this time; so long
/// an ACK is held back at most.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_micros(200);
/// Delayed ACK: answers in a row, less twice the misses, from which on traffic counts as ping-pong.
pub(crate) const PING_PONG_ANSWERS: u8 = 4;
/// Delayed ACK: answers that are remembered at most.
pub(crate) const MAX_ANSWERS: u8 = 8;
/// Delayed ACK: how many times as long as usual an answer may take, and its ACK still wait for it.
pub(crate) const ACK_DELAY_FACTOR: u32 = 4;

/// Requester: bytes of a long message after which an acknowledgement is asked for at the latest.
pub(crate) const ACK_REQUEST_SPACING: u64 = 64 << 10;
/// Requester: packets without a loss after which losses are taken to be rare.
pub(crate) const LOSS_FREE_PACKETS: u64 = 512;
/// Requester: a response that is missing still, as later answers show, is asked for again after a
/// round trip, and so many times in all at this pace, each of them after twice as long.
pub(crate) const LOST_AT_ONCE: u8 = 3;
/// Requester: after that a round trip is taken to be no shorter than this. A peer is a process:
/// what it answered before it had to wait for a processor goes on arriving, and each time costs a
/// retry.
pub(crate) const LOST_AGAIN: Duration = Duration::from_micros(200);
/// Requester: how often a loss is counted as acted upon, at most.
pub(crate) const MAX_LOST_AGAIN: u8 = 10;
/// Requester: least bytes that a message counts for in the window. Small packets cost the network
/// too.
pub(crate) const MIN_MESSAGE_COST: u64 = 256;
/// Requester: bytes' worth of a packet's headers and handling in the budget of a call.
pub(crate) const PACKET_OVERHEAD: i64 = 64;
/// Requester: from this exponent of the Local ACK Timeout on, 0.54 s, T_tr itself is long enough
/// for a peer that is a process and waits for a processor.
pub(crate) const LONG_ACK_TIMEOUT: u8 = 17;

/// Selective acknowledgements: packets sent later that show a loss at once, while the network has
/// not been seen to reorder.
pub(crate) const REORDER_PACKETS: u64 = 3;
/// Selective acknowledgements: packets beyond a gap of which the peer is told at once, if not of
/// fewer.
pub(crate) const EARLY_UNTOLD: usize = 8;
/// Selective acknowledgements: quarters of a round trip that a packet may be overtaken at most.
pub(crate) const MAX_REORDERING: u8 = 4;
/// Selective acknowledgements: the shortest silence after which something is sent again; else it is
/// two round trips. A peer is a process, and not at once on a processor.
pub(crate) const FIRST_PROBE: Duration = Duration::from_micros(200);
/// Selective acknowledgements: how often the silence that is waited for doubles.
pub(crate) const MAX_PROBES: u8 = 10;
/// Selective acknowledgements: the longest silence of a peer that is taken to be its habit. More
/// than a scheduler makes a process wait; a good part of the usual Local ACK Timeout, 67 ms.
pub(crate) const MAX_PATIENCE: Duration = Duration::from_millis(40);
/// Selective acknowledgements: for how many times as long as a peer was silent it is taken to be
/// able to be so again.
pub(crate) const PATIENCE_HOLDS: u32 = 128;

/// Selective acknowledgements: duplicate requests whose answers wait for their turn, at most. What
/// is beyond is dropped, and asked for again.
pub(crate) const MAX_REPLAYS: usize = 1024;

/// UC: a PSN so many or fewer before the expected one is a late or repeated packet. One further off
/// is taken for a peer that has gone on while nothing came through, since PSNs wrap. No network
/// holds packets back for longer.
pub(crate) const LATE_PSNS: i32 = 1 << 16;

/// Annex A17: a peer is told of marks once in so long (N of DCQCN, as published).
pub(crate) const CNP_INTERVAL: Duration = Duration::from_micros(50);
/// DCQCN: the clock of the way back, and that of the estimate of congestion (as published).
pub(crate) const DCQCN_PERIOD: Duration = Duration::from_micros(55);
pub(crate) const DCQCN_ALPHA_PERIOD: Duration = Duration::from_micros(55);
/// DCQCN: bytes after which the byte counter runs over.
pub(crate) const DCQCN_BYTES: u64 = 10 << 20;
/// DCQCN: times that either runs over before the rate goes beyond what it was.
pub(crate) const DCQCN_FAST_STEPS: u32 = 5;
/// DCQCN: 1/g, by which the estimate of congestion moves.
pub(crate) const DCQCN_GAIN: u64 = 256;
/// DCQCN: bytes a second by which the rate grows in a step, and in a leap: 40 and 400 Mb/s.
pub(crate) const DCQCN_ADDITIVE: u64 = 5_000_000;
pub(crate) const DCQCN_HYPER: u64 = 50_000_000;
/// DCQCN: the least rate in bytes a second: 80 Mb/s.
pub(crate) const DCQCN_MIN_RATE: u64 = 10_000_000;
/// DCQCN: time for which what is sent is measured.
pub(crate) const DCQCN_MEASURE: Duration = Duration::from_millis(1);
/// DCQCN: time for which may be sent at once.
pub(crate) const DCQCN_BURST: Duration = Duration::from_micros(200);
