//! Posting work requests: the guards under which a list of them is queued, and when what was queued
//! is sent.

use ferroce_transport::{Datagram, Dest, PostError, QpState, SendData, SendRequest, Sge};

use crate::datapath::held::Held;
use crate::datapath::turns::Part;
use crate::error::{Error, Result};
use crate::instrument::{LATENCY, VERBS};
use crate::locks::MutexGuard;
use crate::progress::timers;
use crate::tuning::{COMPANY, DEEP_REQUESTS, GATHER_UNANSWERED, SHARED_PACKETS, SMALL_REQUEST};
use crate::verbs::places::Side;
use crate::verbs::qp::{Inner, Qp};

impl Qp {
    /// Posts one send request, and rings the doorbell.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<()> {
        let mut queue = self.send_queue();
        let posted = queue.post(request);
        queue.doorbell();
        posted
    }

    /// Locks the send queue to post requests, which [`doorbell`](SendPoster::doorbell) starts.
    pub fn send_queue(&self) -> SendPoster<'_> {
        SendPoster {
            qp: self,
            inner: self.inner.lock(),
            posted: Held::default(),
            largest: 0,
            awaited: false,
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
            inner: self.inner.lock(),
        }
    }

    /// Requests that one of its queues still takes.
    #[inline]
    fn room(&self, inner: &Inner, side: Side) -> u32 {
        let (most, posted) = match side {
            Side::Send => (self.cap.max_send_wr, inner.transport.sends_posted()),
            Side::Receive => (self.cap.max_recv_wr, inner.transport.receives_posted()),
        };
        let taken = self.hca().places.taken(self.row.place(), side, posted);
        most.saturating_sub(taken)
    }

    /// Nothing is in its queues any more, nor to be polled.
    pub(super) fn empty_places(&self, inner: &Inner) {
        let (places, row) = (&self.hca().places, self.row.place());
        places.empty(row, Side::Send, inner.transport.sends_posted());
        places.empty(row, Side::Receive, inner.transport.receives_posted());
    }
}

/// The locked send queue. Whoever holds it posts and does nothing else: packets of the queue pair
/// wait meanwhile, and the threads that have received them.
#[must_use = "what is posted is sent when the doorbell is rung"]
pub struct SendPoster<'a> {
    qp: &'a Qp,
    inner: MutexGuard<'a, Inner>,
    posted: Held,
    /// Payload bytes of the largest request posted.
    largest: usize,
    /// Whether one of them raises a completion after many that raise none.
    awaited: bool,
}

impl SendPoster<'_> {
    /// Queues one request. On an error this one and none after it was queued by this call; earlier
    /// ones stay.
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<()> {
        if self.qp.tm.is_some() {
            return Err(Error::Invalid(
                "the send queue is for the rendezvous of the shared receive queue",
            ));
        }

        if let Dest::Datagram(to) = &request.dest {
            self.check_handle(to)?;
        }

        if self.room() == 0 {
            self.inner.transport.accepts_sends()?;
            return Err(full(self.inner.transport.send_room()));
        }
        self.inner.transport.post_send(request)?;
        let signaled = self.inner.transport.is_signaled(request.flags);
        if self.qp.hca().taps.has(VERBS | LATENCY) {
            self.qp.posted(request, signaled);
        }
        let bytes = match request.data {
            SendData::Inline(bytes) => bytes.len(),
            SendData::Sges(sges) => sges.iter().map(|s| s.length as usize).sum::<usize>(),
        };
        self.posted = self.posted.and(Held { requests: 1, bytes });
        self.largest = self.largest.max(bytes);
        self.awaited |= self.inner.unsignaled.posted(signaled);
        Ok(())
    }

    /// The address handle of a datagram must be in the QP's protection domain, and the one that was
    /// made with the cookie.
    fn check_handle(&self, to: &Datagram) -> Result<()> {
        let handles = self.qp.hca().ahs.read_after();
        match handles.get(to.ah) {
            Some(target) if (target.pd, target.cookie) == (self.qp.pd_handle(), to.cookie) => {
                Ok(())
            }
            _ => Err(Error::Invalid(
                "the address handle is of another protection domain, destroyed or overwritten",
            )),
        }
    }

    /// Whether what was posted can wait to be sent together with what follows: it is small, and
    /// enough is on its way that an acknowledgement will soon be the occasion. A ping-pong never
    /// waits.
    fn can_wait(&self) -> bool {
        let transport = &self.inner.transport;
        let gather = self.inner.depth.gather(transport.knows_its_peer());
        let held = self.inner.held.and(self.posted);
        let in_flight = transport.packets_in_flight();
        !self.awaited
            && self.largest <= SMALL_REQUEST
            && held.has_room(self.largest, gather.at_most(in_flight))
            && in_flight >= gather.in_flight
            && transport.state() == QpState::Rts
    }

    /// Whether what was posted can wait for what the program posts to other queue pairs before it
    /// polls in vain: it is small, the program polls, and of the queue pairs to this peer several
    /// have something on their way, so that there is something to poll for.
    fn is_in_company(&self) -> bool {
        let transport = &self.inner.transport;
        let path = self.inner.path.as_ref();
        let others = || path.map_or(0, |path| path.congestion.turns.taken());
        !self.awaited
            && self.largest <= SMALL_REQUEST
            && transport.packets_in_flight() == 0
            && transport.knows_its_peer()
            && transport.state() == QpState::Rts
            && self.qp.hca().driver.app_drives()
            && others() >= COMPANY
    }

    /// Requests that the queue still takes.
    #[inline]
    pub fn room(&self) -> u32 {
        self.qp.room(&self.inner, Side::Send)
    }

    /// Starts what was posted, and what was left from before, as far as it can be sent now. Without
    /// it, requests wait for the next occasion.
    pub fn doorbell(mut self) {
        let hca = self.qp.hca();
        // Without a daemon the queue pair is in ERR, or about to be: what is posted now is flushed
        // all the same.
        if hca.is_inherited() {
            return;
        }
        self.inner.expected = self.inner.transport.expected_psn();
        if self.inner.part == Part::Waits {
            self.qp.publish_queues(&self.inner);
            return;
        }
        if self.qp.is_unreliable() {
            return self.start_unanswered();
        }
        if self.can_wait() {
            self.inner.held = self.inner.held.and(self.posted);
            self.qp.publish_queues(&self.inner);
            return;
        }
        let now = timers::now();
        if self.is_in_company() && hca.company.may_wait() {
            let held = self.inner.held.and(self.posted);
            self.qp.hold(&mut self.inner, held, now);
            self.qp.publish_queues(&self.inner);
            drop(self.inner);
            if hca.waiting.len() >= SHARED_PACKETS {
                hca.send_what_waits();
            }
            return;
        }
        let keys = hca.keys.read_after();
        // An ACK that was held back goes out beside what was posted; if nothing can, it waits on.
        self.qp.pump(&mut self.inner, &keys, now, false);
        drop(keys);
        drop(self.inner);
        hca.hand_turns(now);
    }

    /// Rings the doorbell of a queue pair whose requests nobody acknowledges: they wait for company
    /// only where they are many in a row.
    fn start_unanswered(mut self) {
        let (qp, hca, now) = (self.qp, self.qp.hca(), timers::now());
        // A long list is company enough.
        let many = self.inner.burst.posted(now, self.posted.requests)
            && self.posted.requests < DEEP_REQUESTS;
        let held = self.inner.held.and(self.posted);
        let room = held.has_room(self.largest, GATHER_UNANSWERED);
        let transport = &self.inner.transport;
        if many
            && room
            && self.largest <= SMALL_REQUEST
            && self.room() > 0
            && transport.state() == QpState::Rts
        {
            qp.hold(&mut self.inner, held, now);
            self.inner.burst.ended(now);
            qp.publish_queues(&self.inner);
            return;
        }

        if many && !room {
            self.inner.burst.paid();
        }
        let keys = hca.keys.read_after();
        qp.pump(&mut self.inner, &keys, now, false);
        self.inner.burst.ended(timers::now());
    }
}

/// Why a queue takes no more, of whose requests as many as `done` are done.
#[cold]
fn full(done: u32) -> Error {
    match done {
        0 => PostError::QueueFull.into(),
        _ => Error::Full("work queue: some requests are done, but their completions not polled"),
    }
}

/// The locked receive queue, which is held for posting alone, too.
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
        if self.qp.room(&self.inner, Side::Receive) == 0 {
            self.inner.transport.accepts_receive(sges)?;
            return Err(full(self.inner.transport.receive_room()));
        }
        self.inner.transport.post_recv(wr_id, sges)?;
        if self.qp.hca().taps.has(VERBS) {
            self.qp
                .hca()
                .taps
                .captures
                .posted_recv(self.qp.number, wr_id, sges);
        }
        // Requests posted to a QP in error are flushed at once.
        if self.inner.transport.state() == QpState::Err {
            self.flush();
        }
        Ok(())
    }

    #[cold]
    fn flush(&mut self) {
        let keys = self.qp.hca().keys.read_after();
        self.qp.pump(&mut self.inner, &keys, timers::now(), true);
    }
}

impl Drop for RecvPoster<'_> {
    fn drop(&mut self) {
        self.qp.publish_queues(&self.inner);
    }
}
