//! What `libferroce.so` asks of the provider (`<ferroce_dv.h>`): the one thing that is exported
//! here. Whatever needs the daemon alone, faults and captures, that library does by itself.

use crate::context::engine;
use crate::guard::{self, Errno, explain};
use crate::qp::Qp;
use ferroce_cabi::direct::*;
use ferroce_cabi::{ibv_context, ibv_cq, ibv_qp, ibv_wc};
use ferroce_engine::{Context, Counter, Histogram, Insight, Made, QpNumbers};
use libc::{c_char, c_int, c_void, size_t};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;

/// Where the library finds it, by [`DIRECT`].
#[used]
#[unsafe(export_name = "ferroce_direct_1")]
static TABLE: ferroce_direct = ferroce_direct {
    size: size_of::<ferroce_direct>(),
    query_device,
    query_qp,
    catch_up,
    histogram_start,
    histogram_read,
    histogram_stop,
    completion_callback,
};

/// A context is being closed: nobody is called any more.
pub(crate) fn closed(context: &Context) {
    // The program may be closing it in what is called.
    let _ = context.unwatch();
}

/// Gives the caller as much as there is room for in a structure of `size` bytes. A newer one than
/// ours gets zeros at its end.
///
/// # Safety
/// `to` is null, or has `size` bytes to be written to.
unsafe fn give<T>(value: &T, to: *mut T, size: size_t) -> Result<c_int, Errno> {
    // The first word, `comp_mask`, says what is there.
    if to.is_null() || size < size_of::<u64>() {
        return Err(Errno(libc::EINVAL));
    }

    let known = size.min(size_of::<T>());
    // SAFETY: as the caller promises.
    unsafe {
        let to = to.cast::<u8>();
        to.copy_from_nonoverlapping((&raw const *value).cast(), known);
        to.add(known).write_bytes(0, size - known);
    }
    Ok(0)
}

/// A text with the NUL at its end; one that is too long is cut.
fn text<const LEN: usize>(bytes: &[u8]) -> [c_char; LEN] {
    let mut text = [0; LEN];
    for (to, from) in text.iter_mut().zip(bytes).take(LEN - 1) {
        *to = *from as c_char;
    }
    text
}

unsafe extern "C" fn query_device(
    context: *mut ibv_context,
    attr: *mut ferroce_dv_device_attr,
    size: size_t,
) -> c_int {
    guard::run(|| {
        // SAFETY: a context of ours.
        let hca = unsafe { engine(context) }.hca();
        let dir = hca.runtime_dir()?;
        let dir = dir.iter().flat_map(|dir| dir.as_os_str().as_bytes());
        let dir: Vec<u8> = dir.copied().collect();

        let flags = [
            (hca.uses_memory(), FERROCE_DV_DEVICE_MEMORY),
            (hca.cuts_runs(), FERROCE_DV_DEVICE_GSO),
            (hca.info().ib_ports != 0, FERROCE_DV_DEVICE_INFINIBAND),
        ];
        let flags = flags.iter().filter(|(has, _)| *has);
        let now = ferroce_dv_device_attr {
            comp_mask: FERROCE_DV_DEVICE_IDENTITY | FERROCE_DV_DEVICE_COUNTERS,
            version: text(env!("CARGO_PKG_VERSION").as_bytes()),
            runtime_dir: text(&dir),
            slot: hca.slot().into(),
            flags: flags.fold(0, |sum, (_, flag)| sum | flag),
            sent_packets: hca.counted(Counter::TxPackets),
            sent_bytes: hca.counted(Counter::TxBytes),
            received_packets: hca.counted(Counter::RxPackets),
            received_bytes: hca.counted(Counter::RxBytes),
            retransmitted_packets: hca.counted(Counter::RetransmittedPackets),
            ack_timeouts: hca.counted(Counter::LocalAckTimeout),
            send_errors: hca.counted(Counter::ReqCqeError),
            receive_errors: hca.counted(Counter::RespCqeError),
        };
        // SAFETY: the caller's structure.
        unsafe { give(&now, attr, size) }
    })
}

unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ferroce_dv_qp_attr,
    size: size_t,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::live(qp) };
    guard::on(object, |object| {
        let insight = object.engine.insight()?;
        let now = described(object.engine.qp_num(), &insight);
        // SAFETY: the caller's structure.
        unsafe { give(&now, attr, size) }
    })
}

fn described(qp_num: u32, insight: &Insight) -> ferroce_dv_qp_attr {
    let QpNumbers {
        progress,
        last_error,
        ..
    } = &insight.numbers;
    let received = last_error.is_some_and(|error| error.receive);
    let flags = [
        (
            progress.waits_for_receiver,
            FERROCE_DV_QP_WAITS_FOR_RECEIVER,
        ),
        (received, FERROCE_DV_QP_LAST_ERROR_RECEIVE),
    ];
    let flags = flags.iter().filter(|(has, _)| *has);

    let about = ferroce_dv_qp_attr {
        comp_mask: FERROCE_DV_QP_PROGRESS | FERROCE_DV_QP_COUNTERS,
        qp_num,
        state: insight.state as u32,
        ordinal: insight.ordinal,
        flags: flags.fold(0, |sum, (_, flag)| sum | flag),
        next_psn: progress.next_psn,
        unacknowledged_psn: progress.unacknowledged_psn,
        highest_psn: progress.highest_psn,
        expected_psn: progress.expected_psn,
        window: progress.window,
        max_window: insight.max_window,
        in_flight: progress.in_flight,
        sends_outstanding: progress.sends,
        receives_outstanding: progress.receives,
        retries_left: progress.retries.into(),
        rnr_retries_left: progress.rnr_retries.into(),
        last_error: last_error.map_or(0, |error| error.status),
        sends_completed: progress.sends_completed,
        receives_completed: insight.numbers.receives_completed,
        last_error_time: last_error.map_or(0, |error| error.at),
        last_sent: insight.numbers.last_sent,
        last_received: insight.numbers.last_received,
        ..ferroce_dv_qp_attr::default()
    };
    counted(about, &insight.numbers)
}

/// The same with the counters.
fn counted(about: ferroce_dv_qp_attr, numbers: &QpNumbers) -> ferroce_dv_qp_attr {
    let count = |counter| numbers.counter(counter);
    ferroce_dv_qp_attr {
        sent_packets: count(Counter::TxPackets),
        sent_bytes: count(Counter::TxBytes),
        received_packets: count(Counter::RxPackets),
        received_bytes: count(Counter::RxBytes),
        retransmitted_packets: count(Counter::RetransmittedPackets),
        ack_timeouts: count(Counter::LocalAckTimeout),
        rnr_naks_received: count(Counter::RnrNakRetry),
        rnr_naks_sent: count(Counter::OutOfBuffer),
        sequence_naks_received: count(Counter::PacketSeqErr),
        sequence_naks_sent: count(Counter::SeqErrNakSent),
        implied_naks: count(Counter::ImpliedNakSeqErr),
        duplicate_requests: count(Counter::DuplicateRequest),
        out_of_sequence: count(Counter::OutOfSequence),
        send_errors: count(Counter::ReqCqeError),
        receive_errors: count(Counter::RespCqeError),
        sends_flushed: count(Counter::ReqCqeFlushError),
        receives_flushed: count(Counter::RespCqeFlushError),
        retries_exceeded: count(Counter::RetryExceeded),
        rnr_retries_exceeded: count(Counter::RnrRetryExceeded),
        remote_access_errors: count(Counter::ReqRemoteAccessErrors),
        ..about
    }
}

unsafe extern "C" fn catch_up(context: *mut ibv_context) -> c_int {
    guard::run(|| {
        // SAFETY: a context of ours.
        let hca = unsafe { engine(context) }.hca();
        hca.catch_up().map_err(|e| explain("catching up", e))?;
        Ok(0)
    })
}

unsafe extern "C" fn histogram_start(qp: *mut ibv_qp) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::live(qp) };
    guard::on(object, |object| {
        let begun = object.engine.measure();
        begun.map_err(|e| explain("ferroce_dv_histogram_start", e))?;
        Ok(0)
    })
}

unsafe extern "C" fn histogram_read(
    qp: *mut ibv_qp,
    histogram: *mut ferroce_dv_histogram,
    size: size_t,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::live(qp) };
    guard::on(object, |object| {
        let Some(Histogram {
            count,
            sum,
            min,
            max,
            buckets,
        }) = object.engine.measured()
        else {
            return Err(Errno(libc::ENODATA));
        };
        let now = ferroce_dv_histogram {
            comp_mask: 0,
            count,
            sum_ns: sum,
            min_ns: min,
            max_ns: max,
            buckets,
        };
        // SAFETY: the caller's structure.
        unsafe { give(&now, histogram, size) }
    })
}

unsafe extern "C" fn histogram_stop(qp: *mut ibv_qp) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::live(qp) };
    guard::on(object, |object| match object.engine.unmeasure() {
        true => Ok(0),
        false => Err(Errno(libc::ENODATA)),
    })
}

/// What a program wants to be called with.
struct Argument(*mut c_void);

// SAFETY: nothing here looks at what it points to; the header says that another thread is given it.
unsafe impl Send for Argument {}

impl Argument {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

unsafe extern "C" fn completion_callback(
    context: *mut ibv_context,
    callback: ferroce_dv_completion_fn,
    argument: *mut c_void,
) -> c_int {
    guard::run(|| {
        // SAFETY: a context of ours.
        let context = unsafe { engine(context) };
        let Some(callback) = callback else {
            context.unwatch()?;
            return Ok(0);
        };

        let argument = Argument(argument);
        context.watch(Box::new(move |made| {
            let completion = shown(made);
            // SAFETY: the program's function, with what it was set with.
            unsafe { callback(&completion, argument.get()) }
        }))?;
        Ok(0)
    })
}

fn shown(made: &Made) -> ferroce_dv_completion {
    ferroce_dv_completion {
        sequence: made.sequence,
        time_ns: made.time,
        // Events name a queue by where it is.
        cq: std::ptr::without_provenance_mut::<ibv_cq>(made.cq as usize),
        // SAFETY: the layouts are equal, as `cq` asserts, and plain integers.
        wc: unsafe { (&raw const made.wc).cast::<ibv_wc>().read() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_gets_as_much_as_there_is_room_for() {
        let value = [1_u64, 2, 3];
        let mut room = [7_u8; 32];
        let at = room.as_mut_ptr().cast();
        // SAFETY: the array has 32 bytes.
        unsafe {
            assert_eq!(give(&value, at, 8), Ok(0));
            assert_eq!((room[0], room[8]), (1, 7));
            assert_eq!(give(&value, at, 32), Ok(0));
            assert_eq!((room[16], room[24]), (3, 0));
            assert_eq!(give(&value, at, 7), Err(Errno(libc::EINVAL)));
            let none = std::ptr::null_mut();
            assert_eq!(give(&value, none, 24), Err(Errno(libc::EINVAL)));
        }
    }

    #[test]
    fn texts_end() {
        assert_eq!(text::<4>(b"ab"), [97, 98, 0, 0]);
        assert_eq!(text::<4>(b"abcdef"), [97, 98, 99, 0]);
    }
}
