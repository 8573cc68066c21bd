//! `GET_EVENT`: taking the next event out of a channel's descriptor, or waiting for it. ferroced is
//! told only if it wants to hear. Events that are gone are taken out likewise.

use super::{Call, NOTHING, bytes};
use crate::answers;
use crate::carrier::RDMA_CM;
use crate::channels::Channel;
use crate::sys::{self, Lent};
use ferroce_cabi::ucma::rdma_ucm_event_resp;
use ferroce_cabi::ucma_frame::{Answers, LONG_RECORD, Record, Request, SHORT_RECORD, TAKEN};
use libc::{c_int, iovec, msghdr};
use std::mem::{MaybeUninit, offset_of, size_of};

/// Bytes of an event as old libraries know it.
const SHORT_EVENT: usize = offset_of!(rdma_ucm_event_resp, reserved);

impl Call {
    /// Waits for an event, if the descriptor is a blocking one, and fetches it. As in the kernel,
    /// the channel stays open while somebody waits, whatever other threads close meanwhile: their
    /// number may be another file's by then.
    ///
    /// # Safety
    /// As [`write`](super::write).
    pub(super) unsafe fn next_event(&mut self) -> Result<(), c_int> {
        if !self.channel.is_of(self.me) {
            return Err(libc::EACCES);
        }
        if self.answer.iov_len < SHORT_EVENT {
            return Err(libc::ENOSPC);
        }

        let mut held = None;
        let done = loop {
            // SAFETY: as the caller promises.
            match unsafe { self.take_event() } {
                Err(libc::EAGAIN) => {}
                Err(libc::ENOTSOCK) => break Err(libc::EBADF),
                done => break done,
            }

            if held.is_none() {
                held = sys::duplicate(self.fd).map(Lent::new);
                self.fd = held.as_ref().map_or(self.fd, Lent::fd);
                // Closed just before.
                if sys::inode(self.fd) != Some(self.channel.inode()) {
                    break Err(libc::EBADF);
                }
            }

            if let Err(errno) = self.wait_awake() {
                break Err(errno);
            }
            match sys::wait_for_message(self.fd) {
                Ok(true) => {}
                // Nothing more will come: ferroced has gone.
                Ok(false) => break Err(libc::EIO),
                Err(errno) => break Err(errno),
            }
        };

        if let Some(held) = held {
            held.close();
        }
        done
    }

    /// Takes the next event (`EAGAIN`: there is none) and keeps what came along.
    ///
    /// # Safety
    /// As [`write`](super::write).
    unsafe fn take_event(&self) -> Result<(), c_int> {
        let mut record = MaybeUninit::<Record>::uninit();
        let mut rest = [0u8; size_of::<rdma_ucm_event_resp>()];
        let mut along = MaybeUninit::<Answers>::uninit();
        let event = self.answer.iov_len.min(size_of::<rdma_ucm_event_resp>());
        let mut vector = [
            iovec {
                iov_base: record.as_mut_ptr().cast(),
                iov_len: size_of::<Record>(),
            },
            bytes(self.answer.iov_base, event),
            iovec {
                iov_base: rest.as_mut_ptr().cast(),
                iov_len: size_of::<rdma_ucm_event_resp>() - event,
            },
            iovec {
                iov_base: along.as_mut_ptr().cast(),
                iov_len: size_of::<Answers>(),
            },
        ];

        // SAFETY: all zeros is a message without name, parts and control data.
        let mut message: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_iov = vector.as_mut_ptr();
        message.msg_iovlen = vector.len() as _;
        let guard = self.channel.lock();

        // An event whose place is no memory stays.
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let n = sys::recvmsg(self.fd, &mut message, flags)?;
        if n < SHORT_RECORD || !sys::drop_message(self.fd) {
            return Err(libc::EIO);
        }

        self.channel.add_taken(1);

        // SAFETY: as many bytes have been received.
        let record = unsafe { record.assume_init() };
        if record.answers != 0 && n == LONG_RECORD {
            // SAFETY: as many bytes have been received.
            answers::keep(self.number, &record, unsafe { along.assume_init_ref() });
        }

        drop(guard);
        if record.tell != 0 {
            let word = Request {
                kind: TAKEN,
                command_len: 0,
                taken: self.channel.taken(),
                ..self.request
            };
            // Whoever does not hear it is gone, and its end of the channel with it.
            // SAFETY: nothing of the program's is read.
            let _ = unsafe { RDMA_CM.lock().send(&word, [NOTHING; 2]) };
        }

        Ok(())
    }
}

/// Takes back records whose events are gone, under the channel's lock.
pub(super) fn throw_away(fd: c_int, channel: &Channel, records: u32) {
    for _ in 0..records {
        if sys::drop_message(fd) {
            channel.add_taken(1);
        }
    }
}
