//! `<ferroce_dv.h>`, which is made of this file and of the functions of `rdma-core-plugin/direct`,
//! and the table by which `libferroce.so` finds what answers it in the provider.
//!
//! The structures grow at their ends only. Who fills one in is told how long the caller's is, and
//! `comp_mask` says what was filled in.

use libc::{c_char, c_int, c_void, size_t};

use crate::{ibv_context, ibv_cq, ibv_qp, ibv_wc};

/// Bytes of a version, with the NUL at its end.
pub const FERROCE_DV_VERSION_MAX: usize = 32;

/// Bytes of the path of a runtime directory, with the NUL at its end.
pub const FERROCE_DV_PATH_MAX: usize = 128;

/// Buckets of a histogram of latencies.
pub const FERROCE_DV_BUCKETS: usize = 592;

/// In comp_mask: what the device is, from version to flags.
pub const FERROCE_DV_DEVICE_IDENTITY: u64 = 1 << 0;

/// In comp_mask: what this process has counted, from sent_packets to receive_errors.
pub const FERROCE_DV_DEVICE_COUNTERS: u64 = 1 << 1;

/// In flags: packets between programs of the device go through memory.
pub const FERROCE_DV_DEVICE_MEMORY: u32 = 1 << 0;

/// In flags: sockets are given several packets at a time (GSO).
pub const FERROCE_DV_DEVICE_GSO: u32 = 1 << 1;

/// In flags: the ports are InfiniBand's, not Ethernet's.
pub const FERROCE_DV_DEVICE_INFINIBAND: u32 = 1 << 2;

/// In comp_mask: what the queue pair is, and how far: from qp_num to last_received.
pub const FERROCE_DV_QP_PROGRESS: u64 = 1 << 0;

/// In comp_mask: its counters, from sent_packets to remote_access_errors.
pub const FERROCE_DV_QP_COUNTERS: u64 = 1 << 1;

/// In flags: it waits for as long as an RNR NAK has said.
pub const FERROCE_DV_QP_WAITS_FOR_RECEIVER: u32 = 1 << 0;

/// In flags: what last_error is about was a receive request.
pub const FERROCE_DV_QP_LAST_ERROR_RECEIVE: u32 = 1 << 1;

/// In the flags of a capture: also what programs post, what is completed, and states of queue
/// pairs, as entries of a journal among the packets.
pub const FERROCE_DV_CAPTURE_VERBS: u32 = 1 << 0;

/// In the flags of a capture: of a packet from one program of the device to another both sides, as
/// it was sent and as it came. Else it is there once, as it was sent.
pub const FERROCE_DV_CAPTURE_BOTH: u32 = 1 << 1;

/// A device, as this process has it open. Counters begin when the process opens the device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferroce_dv_device_attr {
    /// What was filled in: FERROCE_DV_DEVICE_*. The rest is zero.
    pub comp_mask: u64,
    /// The provider's version, such as "0.2.0".
    pub version: [c_char; FERROCE_DV_VERSION_MAX],
    /// The runtime directory of the device's daemon.
    pub runtime_dir: [c_char; FERROCE_DV_PATH_MAX],
    /// The part of the device that is this process's: the upper 8 bits of its queue pairs' numbers.
    pub slot: u32,
    /// FERROCE_DV_DEVICE_MEMORY, FERROCE_DV_DEVICE_GSO, FERROCE_DV_DEVICE_INFINIBAND.
    pub flags: u32,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes of those packets, from the BTH to the ICRC.
    pub sent_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Bytes of those packets, from the BTH to the ICRC.
    pub received_bytes: u64,
    /// Packets sent again.
    pub retransmitted_packets: u64,
    /// Local ACK Timeouts that expired.
    pub ack_timeouts: u64,
    /// Send requests that ended with an error other than a flush.
    pub send_errors: u64,
    /// Receive requests that ended with an error other than a flush.
    pub receive_errors: u64,
}

/// A queue pair from inside. PSNs have 24 bits; times are nanoseconds of CLOCK_MONOTONIC, 0 for
/// never.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ferroce_dv_qp_attr {
    /// What was filled in: FERROCE_DV_QP_*. The rest is zero.
    pub comp_mask: u64,
    /// Its number.
    pub qp_num: u32,
    /// enum ibv_qp_state.
    pub state: u32,
    /// Which of the process's queue pairs it is, from 1, in the order in which they were made.
    pub ordinal: u32,
    /// FERROCE_DV_QP_WAITS_FOR_RECEIVER, FERROCE_DV_QP_LAST_ERROR_RECEIVE.
    pub flags: u32,
    /// The PSN that goes out next: sq_psn, plus the packets sent since.
    pub next_psn: u32,
    /// The oldest PSN that is not acknowledged; next_psn if none is.
    pub unacknowledged_psn: u32,
    /// The PSN after the highest that went out; another than next_psn while something is sent
    /// again.
    pub highest_psn: u32,
    /// The PSN that is expected of the peer: rq_psn, plus the packets of requests received since.
    pub expected_psn: u32,
    /// Bytes that may be unacknowledged now. 0 where nothing is acknowledged (UC, UD), and without
    /// a peer.
    pub window: u32,
    /// The most that window can be.
    pub max_window: u32,
    /// Bytes that are unacknowledged, as the window counts them.
    pub in_flight: u32,
    /// Send requests that are in the queue.
    pub sends_outstanding: u32,
    /// Receive requests that are in the queue pair's own receive queue.
    pub receives_outstanding: u32,
    /// Retries that are left before the queue pair fails.
    pub retries_left: u32,
    /// Likewise, after RNR NAKs; 7: without end.
    pub rnr_retries_left: u32,
    /// The status of the last request that failed other than by being flushed (enum
    /// ibv_wc_status); IBV_WC_SUCCESS: none has.
    pub last_error: u32,
    /// Send requests that have left the queue since the queue pair was made or reset, those without
    /// a completion included.
    pub sends_completed: u64,
    /// Receive requests that have completed since the queue pair was made.
    pub receives_completed: u64,
    /// When last_error came.
    pub last_error_time: u64,
    /// When a packet last went out.
    pub last_sent: u64,
    /// When a packet last came.
    pub last_received: u64,
    /// Packets sent, those sent again included.
    pub sent_packets: u64,
    /// Bytes of those packets, from the BTH to the ICRC.
    pub sent_bytes: u64,
    /// Packets received and accepted.
    pub received_packets: u64,
    /// Bytes of those packets, from the BTH to the ICRC.
    pub received_bytes: u64,
    /// Packets sent again.
    pub retransmitted_packets: u64,
    /// Local ACK Timeouts that expired.
    pub ack_timeouts: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u64,
    /// NAKs for a PSN sequence error received.
    pub sequence_naks_received: u64,
    /// NAKs for a PSN sequence error sent.
    pub sequence_naks_sent: u64,
    /// Times that a missing response showed that it or its request was lost.
    pub implied_naks: u64,
    /// Requests received again that had been carried out before.
    pub duplicate_requests: u64,
    /// Requests received out of order.
    pub out_of_sequence: u64,
    /// Send requests that ended with an error other than a flush.
    pub send_errors: u64,
    /// Receive requests that ended with an error other than a flush.
    pub receive_errors: u64,
    /// Send requests that were flushed.
    pub sends_flushed: u64,
    /// Receive requests that were flushed.
    pub receives_flushed: u64,
    /// Times that the retries were used up.
    pub retries_exceeded: u64,
    /// Times that the retries after RNR NAKs were used up.
    pub rnr_retries_exceeded: u64,
    /// Send requests that the peer refused for want of rights.
    pub remote_access_errors: u64,
}

/// How long send requests took, from post to completion, in nanoseconds. Bucket i counts those that
/// took as long as ferroce_dv_histogram_floor(i) or longer, and less than
/// ferroce_dv_histogram_floor(i + 1): below 16 ns a bucket for each nanosecond, above it 16 for
/// each power of two, so that a bucket is a sixteenth of its floor wide at most. The last one has
/// all from 2^40 - 2^35 ns (17 minutes and 45 seconds) on, too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferroce_dv_histogram {
    /// Zero; for what is added later.
    pub comp_mask: u64,
    /// Requests: the sum of all buckets.
    pub count: u64,
    /// The sum of what they took.
    pub sum_ns: u64,
    /// The shortest; 0 if there is none.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many are in each bucket.
    pub buckets: [u64; FERROCE_DV_BUCKETS],
}

/// A completion that the device has made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferroce_dv_completion {
    /// Which of the context's it is, from 1 since the callback was set. A number that is missing is
    /// of a completion that was made while 65536 others waited for the callback.
    pub sequence: u64,
    /// When it was made, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The queue that it was put into.
    pub cq: *mut ibv_cq,
    /// The completion, as ibv_poll_cq(3) gives it.
    pub wc: ibv_wc,
}

/// What is called for each completion, with what it was set with.
pub type ferroce_dv_completion_fn =
    Option<unsafe extern "C" fn(completion: *const ferroce_dv_completion, arg: *mut c_void)>;

/// The name under which the provider exports its [`ferroce_direct`]. A table that begins otherwise
/// has another name.
pub const DIRECT: &core::ffi::CStr = c"ferroce_direct_1";

/// What the provider does for `libferroce.so`. All but `size` are functions of the header, and
/// answer 0 or a positive errno.
#[repr(C)]
#[allow(missing_docs)]
pub struct ferroce_direct {
    /// Bytes of the table; functions may be added at its end.
    pub size: size_t,
    pub query_device:
        unsafe extern "C" fn(*mut ibv_context, *mut ferroce_dv_device_attr, size_t) -> c_int,
    pub query_qp: unsafe extern "C" fn(*mut ibv_qp, *mut ferroce_dv_qp_attr, size_t) -> c_int,
    /// Has this process go by all that the daemon has told until now: faults and captures.
    pub catch_up: unsafe extern "C" fn(*mut ibv_context) -> c_int,
    pub histogram_start: unsafe extern "C" fn(*mut ibv_qp) -> c_int,
    pub histogram_read:
        unsafe extern "C" fn(*mut ibv_qp, *mut ferroce_dv_histogram, size_t) -> c_int,
    pub histogram_stop: unsafe extern "C" fn(*mut ibv_qp) -> c_int,
    pub completion_callback:
        unsafe extern "C" fn(*mut ibv_context, ferroce_dv_completion_fn, *mut c_void) -> c_int,
}
