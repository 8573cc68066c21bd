//! The requests that the builder has collected (`ibv_wr_post(3)`). The vectors keep their capacity,
//! so that steady state allocates nothing.

use crate::guard::{Errno, explain};
use crate::requests::INLINE_MAX;
use ferroce_cabi::ibv_data_buf;
use ferroce_engine::{Dest, SendData, SendFlags, SendOp, SendPoster, SendRequest, Sge};
use libc::c_int;
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;
use std::cell::UnsafeCell;
use std::ops::Range;

/// The requests of one queue pair between `wr_start` and `wr_complete`.
pub(crate) struct Builder {
    /// Held from `wr_start` to `wr_complete` or `wr_abort`: a critical section of the consumer's.
    pub lock: RawMutex,
    pub batch: UnsafeCell<Batch>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            lock: RawMutex::INIT,
            batch: UnsafeCell::default(),
        }
    }
}

/// Requests that are being collected.
#[derive(Default)]
pub(crate) struct Batch {
    requests: Vec<Staged>,
    sges: Vec<Sge>,
    inline: Vec<u8>,
    /// The first thing that went wrong.
    error: Option<Errno>,
}

struct Staged {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    data: StagedData,
    dest: Dest,
}

/// Where a request's payload is in the batch.
enum StagedData {
    Sges(Range<usize>),
    Inline(Range<usize>),
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
        self.inline.clear();
        self.error = None;
    }

    pub(crate) fn fail(&mut self, errno: c_int) {
        self.error.get_or_insert(Errno(errno));
    }

    /// The first thing that went wrong.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        self.error.map_or(Ok(()), Err)
    }

    /// Posts all requests, or none if there is no room for all.
    pub(crate) fn post(&self, engine: &ferroce_engine::Qp) -> Result<(), Errno> {
        let mut queue = engine.send_queue();
        let posted = self.post_to(&mut queue);
        queue.doorbell();
        posted
    }

    fn post_to(&self, queue: &mut SendPoster<'_>) -> Result<(), Errno> {
        if self.requests.len() > queue.room() as usize {
            return Err(Errno(libc::ENOMEM));
        }

        for staged in &self.requests {
            let data = match &staged.data {
                StagedData::Sges(range) => SendData::Sges(&self.sges[range.clone()]),
                StagedData::Inline(range) => SendData::Inline(&self.inline[range.clone()]),
            };
            let request = SendRequest {
                wr_id: staged.wr_id,
                op: staged.op,
                flags: staged.flags,
                data,
                dest: staged.dest,
            };
            queue
                .post(&request)
                .map_err(|e| explain("a send request", e))?;
        }

        Ok(())
    }

    /// Starts a request, which has neither payload nor destination yet.
    #[inline]
    pub(crate) fn begin(&mut self, wr_id: u64, op: SendOp, flags: SendFlags) {
        self.requests.push(Staged {
            wr_id,
            op,
            flags,
            data: StagedData::Sges(0..0),
            dest: Dest::Connected,
        });
    }

    /// Gives the newest request its payload.
    fn set(&mut self, data: StagedData) {
        match self.requests.last_mut() {
            Some(request) => {
                // Which it is follows from the setter that was called, not from the flag.
                request
                    .flags
                    .set(SendFlags::INLINE, matches!(data, StagedData::Inline(_)));
                request.data = data;
            }
            None => self.fail(libc::EINVAL),
        }
    }

    /// Gives the newest request its destination.
    pub(crate) fn set_destination(&mut self, dest: Result<Dest, Errno>) {
        match (self.requests.last_mut(), dest) {
            (Some(request), Ok(dest)) => request.dest = dest,
            (_, Err(Errno(errno))) => self.fail(errno),
            (None, _) => self.fail(libc::EINVAL),
        }
    }

    /// Gives the newest request a list of at most `limit` elements.
    pub(crate) fn set_sges(&mut self, limit: usize, list: &[Sge]) {
        if list.len() > limit {
            return self.fail(libc::EINVAL);
        }
        let start = self.sges.len();
        self.sges.extend_from_slice(list);
        self.set(StagedData::Sges(start..self.sges.len()));
    }

    /// The value of an ATOMIC WRITE, which takes none of the room for inline data.
    pub(crate) fn set_word(&mut self, value: [u8; 8]) {
        let start = self.inline.len();
        self.inline.extend_from_slice(&value);
        self.set(StagedData::Inline(start..self.inline.len()));
    }

    /// Gives the newest request inline data of at most `limit` bytes.
    ///
    /// # Safety
    /// The buffers are readable.
    pub(crate) unsafe fn set_inline(&mut self, limit: usize, buffers: &[ibv_data_buf]) {
        let total = buffers
            .iter()
            .fold(0usize, |sum, buffer| sum.saturating_add(buffer.length));
        if total > limit.min(INLINE_MAX) {
            return self.fail(libc::EINVAL);
        }
        let start = self.inline.len();
        for buffer in buffers.iter().filter(|buffer| buffer.length != 0) {
            // SAFETY: as the caller promises.
            self.inline.extend_from_slice(unsafe {
                std::slice::from_raw_parts(buffer.addr.cast(), buffer.length)
            });
        }
        self.set(StagedData::Inline(start..self.inline.len()));
    }
}
