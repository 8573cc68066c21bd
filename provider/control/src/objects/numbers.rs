//! What a queue pair's row of numbers says.

use super::object::{halves, number, two};
use super::row::{self, QP_COUNTERS, QpMoment};
use crate::Counter;

/// How far a queue pair is, with its window. PSNs have 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpProgress {
    /// Send requests that have left the queue since the queue pair was made or reset.
    pub sends_completed: u64,
    /// Send requests that are in it.
    pub sends: u32,
    /// Receive requests that are in the queue pair's own receive queue.
    pub receives: u32,
    /// The PSN that goes out next.
    pub next_psn: u32,
    /// The oldest that is not acknowledged.
    pub unacknowledged_psn: u32,
    /// The one after the highest that went out: another than the next where something is sent
    /// again.
    pub highest_psn: u32,
    /// The one that is expected of the peer.
    pub expected_psn: u32,
    /// Retries that are left before the queue pair fails.
    pub retries: u8,
    /// Likewise, after RNR NAKs.
    pub rnr_retries: u8,
    /// It waits as long as an RNR NAK has said.
    pub waits_for_receiver: bool,
    /// Payload bytes that are not acknowledged, as the window counts them.
    pub in_flight: u32,
    /// How many there may be; 0 where nothing is acknowledged, or before there is a peer.
    pub window: u32,
}

const PSN: u32 = 0xff_ffff;

impl QpProgress {
    /// The words of PSNs: those of requests sent with the retries, and the others.
    #[inline]
    pub(super) fn psns(&self) -> (u64, u64) {
        let pair = |a: u32, b: u32| u64::from(a & PSN) << 40 | u64::from(b & PSN) << 16;
        let sent = pair(self.next_psn, self.unacknowledged_psn);
        let received = pair(self.highest_psn, self.expected_psn);
        let retries = u64::from(self.retries) << 8 | u64::from(self.rnr_retries);
        (
            sent | retries,
            received | u64::from(self.waits_for_receiver),
        )
    }

    fn from_words(words: &[u64; row::WORDS]) -> QpProgress {
        let pair = |word: u64| ((word >> 40) as u32, (word >> 16) as u32 & PSN);
        let sent = words[row::progress::SENT_PSNS];
        let received = words[row::progress::RECEIVED_PSNS];
        let (sends, receives) = halves(words[row::progress::OUTSTANDING]);
        let (in_flight, window) = halves(words[row::progress::WINDOW]);

        QpProgress {
            sends_completed: words[row::progress::SENDS_COMPLETED],
            sends,
            receives,
            next_psn: pair(sent).0,
            unacknowledged_psn: pair(sent).1,
            highest_psn: pair(received).0,
            expected_psn: pair(received).1,
            retries: (sent >> 8) as u8,
            rnr_retries: sent as u8,
            waits_for_receiver: received & 1 != 0,
            in_flight,
            window,
        }
    }
}

/// What marks of congestion have a path held to, where the device has DCQCN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes a second, told in thousands.
    pub rate: u64,
    /// The estimate of congestion, alpha: parts of [`Pace::ONE`].
    pub alpha: u32,
}

impl Pace {
    /// An estimate of 1.
    pub const ONE: u32 = 1 << 20;

    pub(super) fn word(&self) -> u64 {
        let thousands = u32::try_from(self.rate / 1000).unwrap_or(u32::MAX);
        two(thousands.max(1), self.alpha)
    }

    fn from_word(word: u64) -> Option<Pace> {
        let (thousands, alpha) = halves(word);
        (thousands != 0).then_some(Pace {
            rate: u64::from(thousands) * 1000,
            alpha,
        })
    }
}

/// The last request of a queue pair that failed, other than by being flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastError {
    /// `enum ibv_wc_status`.
    pub status: u32,
    /// It was a receive request.
    pub receive: bool,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
}

/// What is told of a queue pair, beside what it is. Times are nanoseconds of `CLOCK_MONOTONIC`, 0
/// for never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpNumbers {
    /// How far it is.
    pub progress: QpProgress,
    /// What its path is held to; `None`: nothing.
    pub pace: Option<Pace>,
    /// Receive requests that have completed.
    pub receives_completed: u64,
    /// When a packet last went out.
    pub last_sent: u64,
    /// When one last came.
    pub last_received: u64,
    counters: [u64; QP_COUNTERS.len()],
    moments: [u64; 4],
    /// The last request that failed.
    pub last_error: Option<LastError>,
    /// Where sends complete, by the number of the queue's entry.
    pub send_cq: Option<u32>,
    /// Where receives complete.
    pub recv_cq: Option<u32>,
    /// As `ibv_query_qp(3)` has them.
    pub attributes: QpAttributes,
}

impl QpNumbers {
    pub(super) fn from_words(words: &[u64; row::WORDS]) -> QpNumbers {
        let at = words[row::ERROR_AT];
        let (receive, status) = halves(words[row::LAST_ERROR]);
        let (send_cq, recv_cq) = halves(words[row::QUEUES]);

        QpNumbers {
            progress: QpProgress::from_words(words),
            pace: Pace::from_word(words[row::PACE]),
            receives_completed: words[row::progress::RECEIVES_COMPLETED],
            last_sent: words[row::progress::LAST_SENT],
            last_received: words[row::progress::LAST_RECEIVED],
            counters: std::array::from_fn(|i| words[row::COUNTERS + i]),
            moments: std::array::from_fn(|i| words[row::MOMENTS + i]),
            last_error: (at != 0).then_some(LastError {
                status,
                receive: receive != 0,
                at,
            }),
            send_cq: number(send_cq),
            recv_cq: number(recv_cq),
            attributes: QpAttributes::from_words(std::array::from_fn(|i| {
                words[row::ATTRIBUTES + i]
            })),
        }
    }

    /// Nothing but counters.
    pub fn counted(count: impl Fn(Counter) -> u64) -> QpNumbers {
        QpNumbers {
            counters: QP_COUNTERS.map(count),
            ..QpNumbers::default()
        }
    }

    /// The counters, in the order of [`QP_COUNTERS`].
    pub fn counters(&self) -> impl Iterator<Item = (Counter, u64)> {
        QP_COUNTERS.into_iter().zip(self.counters)
    }

    /// One of them; 0 of one that queue pairs do not count.
    pub fn counter(&self, counter: Counter) -> u64 {
        let found = self.counters().find(|(known, _)| *known == counter);
        found.map_or(0, |(_, value)| value)
    }

    /// When something last happened.
    pub fn moment(&self, what: QpMoment) -> u64 {
        self.moments[what as usize]
    }
}

/// Attributes of a queue pair, as `ibv_query_qp(3)` has them, beside those of
/// [`QueuePair`](super::QueuePair).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the verbs' own
pub struct QpAttributes {
    pub dgid: [u8; 16],
    /// In bytes.
    pub path_mtu: u16,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub access: u32,
    pub pkey_index: u16,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u16,
    pub max_recv_sge: u16,
    pub max_inline_data: u32,
    pub qkey: u32,
    pub flow_label: u32,
    pub dlid: u16,
    pub sl: u8,
    pub traffic_class: u8,
    pub is_global: bool,
    pub sq_sig_all: bool,
    pub sq_draining: bool,
}

/// The first of some bytes as a number.
fn word(bytes: &[u8; 16], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

impl QpAttributes {
    pub(super) const WORDS: usize = 8;

    pub(super) fn words(&self) -> [u64; Self::WORDS] {
        let [mtu_high, mtu_low] = self.path_mtu.to_be_bytes();
        let [key_high, key_low] = self.pkey_index.to_be_bytes();
        let [lid_high, lid_low] = self.dlid.to_be_bytes();
        let flags = u8::from(self.is_global)
            | u8::from(self.sq_sig_all) << 1
            | u8::from(self.sq_draining) << 2;

        [
            word(&self.dgid, 0),
            word(&self.dgid, 8),
            u64::from_be_bytes([
                mtu_high,
                mtu_low,
                self.timeout,
                self.retry_cnt,
                self.rnr_retry,
                self.min_rnr_timer,
                self.max_rd_atomic,
                self.max_dest_rd_atomic,
            ]),
            two(
                self.access,
                u32::from_be_bytes([key_high, key_low, self.sgid_index, self.hop_limit]),
            ),
            two(self.max_send_wr, self.max_recv_wr),
            two(
                u32::from(self.max_send_sge) << 16 | u32::from(self.max_recv_sge),
                self.max_inline_data,
            ),
            two(self.qkey, self.flow_label),
            u64::from_be_bytes([
                lid_high,
                lid_low,
                self.sl,
                self.traffic_class,
                flags,
                0,
                0,
                0,
            ]),
        ]
    }

    pub(super) fn from_words(words: [u64; Self::WORDS]) -> QpAttributes {
        let mut dgid = [0; 16];
        dgid[..8].copy_from_slice(&words[0].to_be_bytes());
        dgid[8..].copy_from_slice(&words[1].to_be_bytes());

        let path = words[2].to_be_bytes();
        let (access, rest) = halves(words[3]);
        let [key_high, key_low, sgid_index, hop_limit] = rest.to_be_bytes();
        let (sges, max_inline_data) = halves(words[5]);
        let link = words[7].to_be_bytes();

        QpAttributes {
            dgid,
            path_mtu: u16::from_be_bytes([path[0], path[1]]),
            timeout: path[2],
            retry_cnt: path[3],
            rnr_retry: path[4],
            min_rnr_timer: path[5],
            max_rd_atomic: path[6],
            max_dest_rd_atomic: path[7],
            access,
            pkey_index: u16::from_be_bytes([key_high, key_low]),
            sgid_index,
            hop_limit,
            max_send_wr: halves(words[4]).0,
            max_recv_wr: halves(words[4]).1,
            max_send_sge: (sges >> 16) as u16,
            max_recv_sge: sges as u16,
            max_inline_data,
            qkey: halves(words[6]).0,
            flow_label: halves(words[6]).1,
            dlid: u16::from_be_bytes([link[0], link[1]]),
            sl: link[2],
            traffic_class: link[3],
            is_global: link[4] & 1 != 0,
            sq_sig_all: link[4] & 2 != 0,
            sq_draining: link[4] & 4 != 0,
        }
    }
}
