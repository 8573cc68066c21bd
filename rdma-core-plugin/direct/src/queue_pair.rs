//! A queue pair from inside.

use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::OwnedFd;

use ferroce_cabi::direct::{ferroce_dv_histogram, ferroce_dv_qp_attr};
use ferroce_cabi::ibv_qp;
use ferroce_control::latency;

use crate::capture::Capture;
use crate::device::Device;
use crate::failure::Failure;
use crate::faults::{self, Fault};
use crate::provider;

/// What the provider's answers about a queue pair mean.
pub(crate) const WORDS: &[(c_int, &str)] = &[
    (
        libc::EINVAL,
        "the queue pair is destroyed, the structure is NULL, or its size is less than that of comp_mask",
    ),
    (
        libc::EIO,
        "the queue pair is the parent's of this process, or unusable after an internal error",
    ),
    (
        libc::ENODATA,
        "its latencies are not measured: ferroce_dv_histogram_start begins",
    ),
    (
        libc::EOPNOTSUPP,
        "it has no send queue of the program's: its messages are matched by tag",
    ),
];

/// A queue pair of a ferroce device.
#[derive(Debug)]
pub struct QueuePair {
    qp: *mut ibv_qp,
    device: Device,
}

impl QueuePair {
    /// A queue pair: `struct ibv_qp *` as any binding of libibverbs has it.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is none of a ferroce device; `EINVAL`: it is null.
    ///
    /// # Safety
    /// `qp` is null, or is not destroyed for longer than this and all that is made of it.
    pub unsafe fn from_raw(qp: *mut c_void) -> Result<QueuePair, Failure> {
        let qp: *mut ibv_qp = qp.cast();
        // SAFETY: as the caller promises.
        unsafe { provider::of_qp(qp) }?;
        // SAFETY: likewise; a queue pair's context is open.
        let device = unsafe { Device::from_raw((*qp).context.cast()) }?;
        Ok(QueuePair { qp, device })
    }

    /// How it is from inside, now.
    ///
    /// # Errors
    /// `EIO`: it is the parent's, in a forked child.
    pub fn query(&self) -> Result<ferroce_dv_qp_attr, Failure> {
        let mut attr = ferroce_dv_qp_attr::default();
        let size = size_of::<ferroce_dv_qp_attr>();
        // SAFETY: `from_raw` asks for a queue pair that stays; the structure has that size.
        let answer = unsafe { (provider::of_qp(self.qp)?.query_qp)(self.qp, &mut attr, size) };
        Failure::of(answer, WORDS)?;
        Ok(attr)
    }

    /// Has something go wrong with it, as [`Device::fault`] does.
    ///
    /// # Errors
    /// As `ferroce_dv_fault_add(3)` has them.
    pub fn fault(&self, text: &str) -> Result<Fault, Failure> {
        // SAFETY: `from_raw` asks for a queue pair that stays.
        let context = unsafe { (*self.qp).context };
        // SAFETY: likewise.
        let id = unsafe { faults::add(context, self.qp, text) }?;
        Ok(Fault::new(context, id))
    }

    /// Captures what it sends and what is for it, as [`Device::capture`] does.
    ///
    /// # Errors
    /// As `ferroce_dv_capture_start(3)` has them.
    pub fn capture(
        &self,
        out: impl Into<OwnedFd>,
        verbs: bool,
        both: bool,
    ) -> Result<Capture, Failure> {
        // SAFETY: `from_raw` asks for a queue pair that stays.
        unsafe { self.device.captured(self.qp, out.into(), verbs, both) }
    }

    /// Begins to measure how long its send requests take, until what is returned is dropped.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it has no send queue of the program's.
    pub fn latencies(&self) -> Result<Latencies<'_>, Failure> {
        // SAFETY: `from_raw` asks for a queue pair that stays.
        let answer = unsafe { (provider::of_qp(self.qp)?.histogram_start)(self.qp) };
        Failure::of(answer, WORDS)?;
        Ok(Latencies { of: self })
    }
}

/// That the latencies of a queue pair are measured.
#[derive(Debug)]
pub struct Latencies<'a> {
    of: &'a QueuePair,
}

impl Latencies<'_> {
    /// What was measured so far.
    ///
    /// # Errors
    /// `ENODATA`: somebody else has ended it.
    pub fn read(&self) -> Result<ferroce_dv_histogram, Failure> {
        let qp = self.of.qp;
        let mut histogram = MaybeUninit::<ferroce_dv_histogram>::zeroed();
        let size = size_of::<ferroce_dv_histogram>();
        // SAFETY: `from_raw` asks for a queue pair that stays; the structure has that size.
        let answer =
            unsafe { (provider::of_qp(qp)?.histogram_read)(qp, histogram.as_mut_ptr(), size) };
        Failure::of(answer, WORDS)?;
        // SAFETY: plain integers, zeroed and then filled in.
        Ok(unsafe { histogram.assume_init() })
    }

    /// The latency in nanoseconds that a share of requests, from 0 to 1, did not exceed: the upper
    /// end of their last bucket, which is a sixteenth more at most. `None`: there is none.
    pub fn quantile(histogram: &ferroce_dv_histogram, share: f64) -> Option<u64> {
        let wanted = (share.clamp(0.0, 1.0) * histogram.count as f64).ceil() as u64;
        let mut seen = 0;
        let at = histogram.buckets.iter().position(|count| {
            seen += count;
            *count != 0 && seen >= wanted
        })?;
        Some((latency::floor(at + 1) - 1).min(histogram.max_ns))
    }
}

impl Drop for Latencies<'_> {
    fn drop(&mut self) {
        let qp = self.of.qp;
        // SAFETY: `from_raw` asks for a queue pair that stays. That somebody else has ended it is
        // no matter here.
        if let Ok(provider) = unsafe { provider::of_qp(qp) } {
            // SAFETY: likewise.
            let _ = unsafe { (provider.histogram_stop)(qp) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_in_the_bucket_of_its_request() {
        let mut histogram = ferroce_dv_histogram {
            comp_mask: 0,
            count: 0,
            sum_ns: 0,
            min_ns: 0,
            max_ns: 5000,
            buckets: [0; latency::BUCKETS],
        };
        assert_eq!(Latencies::quantile(&histogram, 0.5), None);

        for nanos in [1000, 1001, 1002, 5000] {
            histogram.buckets[latency::bucket(nanos)] += 1;
            histogram.count += 1;
        }
        let half = Latencies::quantile(&histogram, 0.5).unwrap();
        assert!((1001..1064).contains(&half), "{half}");
        assert_eq!(Latencies::quantile(&histogram, 1.0), Some(5000));
        assert_eq!(Latencies::quantile(&histogram, 0.0), Some(half));
    }
}
