//! Two hosts and the link between them, in virtual time.

use crate::link::{Link, LinkConfig};
use crate::plan::SidePlan;
use crate::rng::{NANOSECOND, Rng};
use crate::side::{Deed, Fills, Side, SideOptions};
use crate::stretched;
use crate::watch;
use crate::wire;
use ferroce_transport::congestion::Controller;
use ferroce_transport::{Duration, QpAttr, QpAttrMask, QpEvent, QpState, Time, TransmitOpts};

/// Queue pair numbers of the two sides.
pub const QPN: [u32; 2] = [0x11, 0x01_0022];

/// Virtual time after which a run counts as hung.
pub(crate) const LIMIT: Time = Time::from_nanos(1_000_000_000_000);

/// After which a side goes on that was interrupted while it sent.
const RESUME: Duration = Duration::from_nanos(500);

/// Something done to a side at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `modify` to ERR.
    Error,
    /// `modify` to RESET.
    Reset,
    /// `modify` to SQD and, once drained, back.
    Drain,
}

/// A world's settings.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seeds the link and the application.
    pub seed: u64,
    /// The link.
    pub link: LinkConfig,
    /// The sides.
    pub sides: [SideOptions; 2],
    /// Time, side, action.
    pub action: Option<(Time, usize, Action)>,
    /// Virtual time after which the run counts as hung.
    pub limit: Time,
    /// The sides keep a record of what they do.
    pub record: bool,
}

/// The whole.
pub struct World {
    /// Virtual time.
    pub now: Time,
    /// The hosts.
    pub sides: [Side; 2],
    /// The link.
    pub link: Link,
    /// Events handled.
    pub steps: u64,
    /// Packets received whole.
    pub packets: u64,
    options: Options,
    action: Option<(Time, usize, Action)>,
    rng: Rng,
}

impl World {
    /// A world that is about to carry out a plan.
    pub fn new(options: Options, plans: [SidePlan; 2]) -> World {
        let [a, b] = plans;
        World {
            now: Time::ZERO,
            sides: [Side::new(0, &options, a), Side::new(1, &options, b)],
            link: Link::new(options.link),
            steps: 0,
            packets: 0,
            action: options.action,
            rng: Rng::new(options.seed ^ 0x5eed),
            options,
        }
    }

    /// Runs until nothing more can happen.
    pub fn run(&mut self) {
        while self.step() {
            self.steps += 1;
            assert!(self.steps < 5_000_000, "the two keep talking without end");
            assert!(
                self.now < self.options.limit,
                "no end in {} ns of virtual time",
                self.now.as_nanos()
            );
        }
    }

    /// One thing happens. Returns whether there was one.
    pub fn step(&mut self) -> bool {
        let mut next = self.link.next();
        let mut sooner = |t: Option<Time>| {
            if let Some(t) = t {
                next = Some(next.map_or(t, |n| n.min(t)));
            }
        };

        for side in &self.sides {
            sooner(side.qp.next_timeout());
            sooner(side.post_at);
            sooner(side.recv_at);
            sooner(side.ack_at);
            sooner(side.resume_at);
            sooner(side.introduce_at);
        }

        sooner(self.action.map(|a| a.0));
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        watch::at(self.now);
        for side in &mut self.sides {
            side.host.now = self.now;
        }
        if let Some(arrival) = self.link.arrival(self.now) {
            let side = &mut self.sides[arrival.to];
            if let Some(packet) = wire::open(&side.flow, &arrival.datagram) {
                self.packets += 1;
                let copy = side.deeds.is_some().then(|| arrival.datagram.clone());
                side.did(|_| Deed::Came(copy.unwrap_or_default()));
                let mtu = side.options.attr.path_mtu as u16;
                stretched::receive(&mut side.qp, self.now, &packet, mtu, &mut side.host);
                self.after(arrival.to);
            }
            self.sides[1 - arrival.to].sink.pool.push(arrival.datagram);
            return true;
        }

        if let Some((at, side, action)) = self.action
            && at <= self.now
        {
            self.action = None;
            self.act(side, action);
            self.after(side);
            return true;
        }

        for i in 0..2 {
            self.tick(i);
        }
        true
    }

    /// Timers and application of one side.
    fn tick(&mut self, i: usize) {
        let now = self.now;
        let due = |t: &mut Option<Time>| t.take_if(|t| *t <= now).is_some();
        let side = &mut self.sides[i];
        let mut busy = false;
        if side.qp.next_timeout().is_some_and(|t| t <= now) {
            side.qp.handle_timeout(now, &mut side.host);
            busy = true;
        }

        if due(&mut side.introduce_at) {
            side.qp.introduce();
            side.expect_filled();
        }

        if due(&mut side.recv_at) && !side.stopped {
            side.post_recvs(1 + self.rng.below(4));
            if side.recv_posted < side.recvs.len() && !side.recv_blocked {
                side.recv_at =
                    Some(now + NANOSECOND + self.rng.span_up_to(side.options.recv_pause));
            }
            busy = true;
        }

        if due(&mut side.post_at) && !side.stopped {
            if !side.ready && side.qp.state() == QpState::Rtr {
                side.get_ready(now);
            }
            side.post_sends(1 + self.rng.below(4));
            if side.posted < side.sends.len() && !side.blocked {
                side.post_at = Some(now + NANOSECOND + self.rng.span_up_to(side.options.pause));
            }
            busy = true;
        }

        busy |= due(&mut side.resume_at);
        let flush = due(&mut side.ack_at);
        if busy || flush {
            self.transmit(i, flush);
            self.after(i);
        }
    }

    fn act(&mut self, i: usize, action: Action) {
        let now = self.now;
        let side = &mut self.sides[i];
        let to = |state| QpAttr {
            qp_state: state,
            en_sqd_async_notify: true,
            ..QpAttr::default()
        };

        match action {
            Action::Error => side.modify(&to(QpState::Err), QpAttrMask::STATE, now),
            Action::Reset => {
                side.modify(&to(QpState::Reset), QpAttrMask::STATE, now);
                side.stopped = true;
            }
            Action::Drain if side.qp.state() == QpState::Rts => {
                let mask = QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY;
                side.modify(&to(QpState::Sqd), mask, now);
            }
            Action::Drain => {}
        }
    }

    /// What follows from anything that happened to a side: it sends, posts what had no room, and is
    /// looked at.
    fn after(&mut self, i: usize) {
        let now = self.now;
        let side = &mut self.sides[i];
        if side.blocked && !side.stopped {
            side.post_sends(4);
            if side.posted < side.sends.len() && !side.blocked {
                side.post_at = Some(now + NANOSECOND + self.rng.span_up_to(side.options.pause));
            }
        }

        if side.recv_blocked && !side.stopped {
            side.post_recvs(1);
            if side.recv_posted < side.recvs.len() && !side.recv_blocked {
                side.recv_at =
                    Some(now + NANOSECOND + self.rng.span_up_to(side.options.recv_pause));
            }
        }

        if side.host.events.last() == Some(&QpEvent::SqDrained) && side.qp.state() == QpState::Sqd {
            assert!(!side.qp.query().sq_draining);
            let attr = QpAttr {
                qp_state: QpState::Rts,
                ..QpAttr::default()
            };
            side.modify(&attr, QpAttrMask::STATE, now);
        }

        self.transmit(i, false);

        // What completes while it is being sent (a local invalidate) makes room at once.
        while self.sides[i].blocked && !self.sides[i].stopped {
            let posted = self.sides[i].posted;
            self.sides[i].post_sends(4);
            if self.sides[i].posted == posted {
                break;
            }
            self.transmit(i, false);
        }

        let side = &mut self.sides[i];
        if !side.blocked && side.posted < side.sends.len() && side.ready && !side.stopped {
            side.post_at = side.post_at.or(Some(now + NANOSECOND));
        }

        self.look(i);
    }

    fn transmit(&mut self, i: usize, flush: bool) {
        let now = self.now;
        let side = &mut self.sides[i];
        let o = &side.options;
        let window = match &side.host.controller {
            Some(controller) => controller.window(),
            None if o.fickle => self.rng.pick(&[1, 5_000, o.window]),
            None => o.window,
        };

        let opts = TransmitOpts {
            window,
            budget: o.budget,
            flush_acks: flush || o.defer.is_none(),
            fill: o.fills != Fills::Nothing,
            // A record is of packets.
            stretch: if self.options.record { 0 } else { o.stretch },
        };

        let idle = !side.qp.has_anything_to_send(opts.flush_acks);
        let good = side.host.model.send.good;
        let mut calls = 0;
        while side.qp.transmit(now, opts, &mut side.host, &mut side.sink) {
            if o.fickle && self.rng.percent(30) {
                side.resume_at = Some(now + RESUME);
                break;
            }
            calls += 1;
            assert!(calls < 1_000_000, "transmit without end");
        }
        if idle {
            let moved =
                calls != 0 || !side.sink.out.is_empty() || side.host.model.send.good != good;
            assert!(!moved, "there was something to send");
        }

        match o.defer {
            Some(wait) if side.qp.has_pending_ack() => {
                side.ack_at = side.ack_at.or(Some(now + wait));
            }
            _ => side.ack_at = None,
        }

        if side.deeds.is_some() {
            for datagram in side.sink.out.clone() {
                side.did(|_| Deed::Sent(datagram));
            }
        }
        for datagram in side.sink.out.drain(..) {
            self.link.send(now, i, datagram, &mut self.rng);
        }
    }

    /// Checks at the peer what newly succeeded here.
    fn look(&mut self, i: usize) {
        let good = self.sides[i].host.model.send.good;
        for index in self.sides[i].checked..good {
            let expect = &self.sides[i].sends[index].expect;
            let peer = &self.sides[1 - i];
            if let Some((va, data)) = &expect.remote {
                let memory = peer.host.memory.borrow();
                assert!(
                    memory.at(*va, data.len()) == data,
                    "RDMA WRITE {index} is not in place"
                );
            }

            if let Some(receive) = expect.consumes {
                assert!(
                    peer.host.model.recv.good > receive,
                    "receive {receive} is not complete"
                );
            }

            if let Some(key) = expect.invalidates {
                let memory = peer.host.memory.borrow();
                assert!(
                    memory.region(key).is_some_and(|r| !r.valid),
                    "key {key} is still valid"
                );
            }
        }

        self.sides[i].checked = good;
    }
}
