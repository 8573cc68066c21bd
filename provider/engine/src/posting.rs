//! Posting work requests: the guards under which a list of them is queued, and when what was queued is sent.

use std::sync::atomic::Ordering;

use ferroce_transport::{Dest, QpState, SendData, SendRequest, Sge};
use parking_lot::MutexGuard;

use crate::error::{Error, Result};
use crate::qp::{Inner, Qp};
use crate::timers;

/// Payload bytes up to which a request is small: its packet costs more than its bytes.
const SMALL: usize = 512;
/// Packets in flight from which on small requests are gathered, and how many at most.
const PLENTY: u64 = 16;
const HOLD: u32 = 16;

impl Qp {
    /// Locks the send queue to post requests; dropping the guard starts them.
    pub fn send_queue(&self) -> SendPoster<'_> {
        let inner = self.lock_to_post();
        self.poster.store(thread_mark(), Ordering::Relaxed);
        SendPoster {
            qp: self,
            inner,
            posted: 0,
            small: true,
        }
    }

    /// Posts one receive request.
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        self.recv_queue().post(wr_id, sges)
    }

    /// Locks the receive queue to post requests.
    pub fn recv_queue(&self) -> RecvPoster<'_> {
        RecvPoster {
            qp: self,
            inner: self.lock_to_post(),
        }
    }
}

/// A number that no other living thread has.
pub(crate) fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// The locked send queue.
pub struct SendPoster<'a> {
    qp: &'a Qp,
    inner: MutexGuard<'a, Inner>,
    posted: u32,
    /// Everything posted is small.
    small: bool,
}

impl SendPoster<'_> {
    /// Queues one request. On an error this one and none after it was queued by this call; earlier ones stay.
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<()> {
        if self.qp.tm.is_some() {
            return Err(Error::Invalid(
                "the send queue is for the rendezvous of the shared receive queue",
            ));
        }
        if let Dest::Datagram(to) = &request.dest {
            self.check_handle(to.ah)?;
        }
        self.inner.transport.post_send(request)?;
        self.posted += 1;
        self.small &= match request.data {
            SendData::Inline(bytes) => bytes.len() <= SMALL,
            SendData::Sges(sges) => sges.iter().map(|s| s.length as usize).sum::<usize>() <= SMALL,
        };
        Ok(())
    }

    /// The address handle of a datagram must be in the QP's protection domain.
    fn check_handle(&self, handle: u32) -> Result<()> {
        let handles = self.qp.hca().ahs.read_recursive();
        match handles.get(handle) {
            Some(target) if target.pd == self.qp.pd_handle() => Ok(()),
            _ => Err(Error::Invalid(
                "the address handle is of another protection domain, or destroyed",
            )),
        }
    }

    /// Whether what was posted can wait to be sent together with what follows: it is small, and enough is on its way
    /// that an acknowledgement will soon be the occasion. A ping-pong, or a few requests at a time, never waits.
    fn can_wait(&self) -> bool {
        self.small
            && self.inner.held + self.posted < HOLD
            && self.inner.transport.packets_in_flight() >= PLENTY
            && self.inner.transport.state() == QpState::Rts
    }

    /// Requests that the queue still takes.
    pub fn room(&self) -> u32 {
        self.inner.transport.send_room()
    }
}

impl Drop for SendPoster<'_> {
    fn drop(&mut self) {
        self.qp.poster.store(0, Ordering::Relaxed);
        let hca = self.qp.hca();
        if !hca.alive() {
            return;
        }
        if self.can_wait() {
            self.inner.held += self.posted;
            return;
        }
        let keys = hca.keys.read_recursive();
        // An ACK that was held back goes out beside what was posted; if nothing can, it waits on.
        self.qp.pump(&mut self.inner, &keys, timers::now(), false);
    }
}

/// The locked receive queue.
pub struct RecvPoster<'a> {
    qp: &'a Qp,
    inner: MutexGuard<'a, Inner>,
}

impl RecvPoster<'_> {
    /// Queues one request.
    #[inline]
    pub fn post(&mut self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        if self.qp.srq.is_some() {
            return Err(Error::Invalid(
                "the queue pair receives from a shared receive queue",
            ));
        }
        Ok(self.inner.transport.post_recv(wr_id, sges)?)
    }
}

impl Drop for RecvPoster<'_> {
    fn drop(&mut self) {
        // Requests posted to a QP in error are flushed at once.
        if self.inner.transport.state() == QpState::Err {
            let keys = self.qp.hca().keys.read_recursive();
            self.qp.pump(&mut self.inner, &keys, timers::now(), true);
        }
    }
}
