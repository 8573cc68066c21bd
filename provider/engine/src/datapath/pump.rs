//! Making a queue pair move: sending what may be sent, and its timer.

use ferroce_control::Counter;
use ferroce_control::faults::Direction;
use ferroce_transport::{Duration, Qp as Transport, QpEvent, QpState, Sink, Time, TransmitOpts};

use crate::datapath::at_rate;
use crate::datapath::completing::Failure;
use crate::datapath::held::Held;
use crate::datapath::qp_host::QpHost;
use crate::datapath::tx::{self, NoPath, Source, Way};
use crate::instrument::{CAPTURE, FAULTS, Tapped};
use crate::memory::keys::KeyTable;
use crate::port::Outgoing;
use crate::progress::timers;
use crate::tuning::{MIN_ACK_DELAY, MIN_HELPERS_ACK_DELAY, PACED_BUDGET, TRANSMIT_BUDGET};
use crate::verbs::qp::{Inner, Qp};

/// What came of an entry of the heap of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// What was not answered in time was sent again, or given up.
    Retry,
    /// That would have been done, but is not to be done now. The entry is to be added again.
    Held,
    /// An acknowledgement went out, or nothing was due.
    Other,
}

impl Qp {
    /// Sends what may be sent and sets the timer. `flush_acks`: also an ACK that could wait for
    /// company.
    pub(crate) fn pump(&self, inner: &mut Inner, keys: &KeyTable, now: Time, flush_acks: bool) {
        // Who has received for it may come when it has ended.
        if inner.ended {
            return;
        }
        if now >= inner.resume_at && inner.waiting && !self.is_unreliable() {
            self.hca().company.in_vain();
        }
        inner.depth.sent(inner.held);
        inner.held = Held::default();
        if let Some(tm) = &self.tm {
            tm.start(&mut inner.transport, self.qp_num());
        }

        if self.is_unreliable() {
            return self.pump_paced(inner, keys, now);
        }

        let window = self.window(inner, now);
        // Mostly what has come has only moved the queues.
        let resume_at = match inner.transport.has_anything_to_send(flush_acks) {
            true => self.send(inner, keys, now, window, flush_acks),
            false => Time::MAX,
        };

        inner.resume_at = resume_at;
        // Who waits for the rate keeps its turn, so that few do at a time.
        if resume_at == Time::MAX {
            self.rest(inner);
        }
        inner.ack_at = match inner.transport.has_pending_ack() {
            true if inner.ack_at == Time::MAX => {
                self.hca().counters().add(Counter::AckDeferred, 1);
                now + self.ack_patience(&inner.transport)
            }
            true => inner.ack_at,
            false => Time::MAX,
        };

        self.arm(inner);
        self.publish(inner, window.unwrap_or(0));
    }

    /// How long an acknowledgement waits for a request of ours. The helper's timer is a wake-up,
    /// and so is an acknowledgement that goes alone, at the peer's: where programs look at memory
    /// each takes a processor from one of them.
    fn ack_patience(&self, transport: &Transport) -> Duration {
        let least = match self.hca().driver.app_drives() {
            true => Duration::ZERO,
            false => MIN_HELPERS_ACK_DELAY,
        };
        transport.ack_patience(least).max(MIN_ACK_DELAY)
    }

    /// Sends what may be sent of a reliable connection. Returns when to go on, if the path's rate
    /// is what stopped it.
    fn send(
        &self,
        inner: &mut Inner,
        keys: &KeyTable,
        now: Time,
        window: Option<u32>,
        flush_acks: bool,
    ) -> Time {
        let Inner {
            transport, path, ..
        } = inner;
        let mut host = QpHost::new(self, keys, path.as_deref(), now);
        let mut resume_at = Time::MAX;
        if let Some(path) = path.as_ref() {
            let source = self.source(transport, keys, now);
            let congestion = &path.congestion;
            let piece = congestion.run();
            let opts = TransmitOpts {
                window: window.unwrap_or(0),
                budget: piece.min(TRANSMIT_BUDGET),
                flush_acks,
                fill: path.exit.prefers_one_length(),
                // Who looks at packets is to see each.
                stretch: match source.taps.has(FAULTS | CAPTURE) {
                    false => path.exit.stretch(),
                    true => 0,
                },
            };
            let held = congestion.is_limited() && transport.state() != QpState::Err;
            tx::with_run(Way::Path(path), source, |run| match window {
                _ if held => {
                    let limits = (now, window, opts);
                    resume_at = at_rate::send(transport, congestion, limits, &mut host, run);
                }
                Some(_) => {
                    while transport.transmit(now, opts, &mut host, run) {
                        if piece < TRANSMIT_BUDGET {
                            run.flush();
                        }
                    }
                }
                None => while transport.respond(opts, &mut host, run) {},
            });
        } else {
            flush(transport, &mut host, now);
        }

        if let Some(failure) = host.failure() {
            self.fails(inner, keys, now, failure);
        }
        resume_at
    }

    /// What its packets are gathered under.
    #[inline]
    fn source<'a>(&'a self, transport: &Transport, keys: &'a KeyTable, now: Time) -> Source<'a> {
        Source {
            keys,
            peer: self.peer(),
            domain: self.domain().map(|domain| &**domain),
            counters: self.hca().counters(),
            taps: &self.hca().taps,
            row: &self.row,
            now,
            p_key: self.p_key(),
            mtu: transport.path_mtu() as u16,
            paced: self.is_unreliable(),
            tapped: self.tapped(),
        }
    }

    /// What its packets are looked at for by themselves, if for anything.
    #[inline]
    fn tapped(&self) -> Option<Tapped<'_>> {
        let taps = &self.hca().taps;
        taps.has(FAULTS).then_some(Tapped {
            taps,
            qp: self.qp_num(),
            ordinal: self.ordinal,
        })
    }

    /// Sends what nobody acknowledges, as fast as its receiver takes it.
    fn pump_paced(&self, inner: &mut Inner, keys: &KeyTable, now: Time) {
        inner.resume_at = Time::MAX;
        let source = self.source(&inner.transport, keys, now);
        let Inner {
            transport,
            path,
            last_path,
            ..
        } = inner;

        let mut host = QpHost::new(self, keys, None, now);
        let handles;
        let way = match path.as_ref() {
            // A connection that only receives may owe a CNP.
            _ if !matches!(
                transport.state(),
                QpState::Rtr | QpState::Rts | QpState::Sqd
            ) =>
            {
                None
            }
            Some(path) => Some(Way::Path(path)),
            None if self.is_datagram() => {
                handles = self.hca().ahs.read_after();
                let last = last_path.take().map(|path| (0, 0, path));
                let hca = self.hca();
                Some(Way::Datagrams {
                    hca,
                    handles: &handles,
                    last,
                })
            }
            None => None,
        };

        let resume_at = match way {
            None => {
                flush(transport, &mut host, now);
                Time::MAX
            }
            Some(way) => tx::with_run(way, source, |run| {
                let resume_at = loop {
                    let allowance = match run.allowance(timers::now()) {
                        Ok(bytes) => bytes,
                        Err(later) => {
                            transport.acknowledge(&mut host, run);
                            break later;
                        }
                    };

                    let opts = TransmitOpts {
                        window: u32::MAX,
                        budget: u32::try_from(allowance)
                            .unwrap_or(u32::MAX)
                            .min(PACED_BUDGET),
                        flush_acks: true,
                        fill: false,
                        stretch: 0,
                    };
                    let more = transport.transmit(now, opts, &mut host, run);

                    // What was sent counts for the next look at the pace.
                    run.flush();
                    if !more {
                        break Time::MAX;
                    }
                };

                *last_path = run.last_path();
                resume_at
            }),
        };

        if let Some(failure) = host.failure() {
            self.fails(inner, keys, now, failure);
        }
        if inner.transport.send_room() < self.cap.max_send_wr {
            inner.resume_at = resume_at;
        }

        self.arm(inner);
        self.publish(inner, 0);
    }

    /// Sends what was held back for company that does not come any more: an ACK, or requests that
    /// nobody acknowledges.
    pub(crate) fn send_last(&self, inner: &mut Inner) {
        if self.hca().alive() && (inner.transport.has_pending_ack() || self.holds(inner)) {
            let keys = self.hca().keys.read_after();
            self.pump(inner, &keys, timers::now(), true);
        }
    }

    /// The process ends: as [`send_last`](Self::send_last), if no thread is in the way.
    pub(crate) fn exiting(&self) {
        if let Some(mut inner) = self.try_lock()
            && (inner.ack_at != Time::MAX || self.holds(&inner))
            && self.hca().keys.try_read().is_some()
        {
            self.send_last(&mut inner);
        }
    }

    /// The queue pair fails with a completion: it had no room (the CQ has said so by its own
    /// event), or a fault has made it an error.
    pub(crate) fn fails(&self, inner: &mut Inner, keys: &KeyTable, now: Time, failure: Failure) {
        match failure {
            Failure::Overrun => self.fail(inner, keys, now, Some(QpEvent::Fatal)),
            Failure::Spoilt(Direction::Out) if inner.transport.is_unreliable() => {
                let mut host = QpHost::new(self, keys, None, now);
                inner.transport.fail_sends(&mut host);
                flush(&mut inner.transport, &mut host, now);
            }
            Failure::Spoilt(_) => self.fail(inner, keys, now, None),
        }
    }

    /// The device has gone, which is an event of its own.
    pub(crate) fn unplugged(&self, inner: &mut Inner, keys: &KeyTable, now: Time) {
        self.fail(inner, keys, now, None);
    }

    fn fail(&self, inner: &mut Inner, keys: &KeyTable, now: Time, event: Option<QpEvent>) {
        let mut host = QpHost::new(self, keys, None, now);
        inner.transport.fail(&mut host, event);
        flush(&mut inner.transport, &mut host, now);
    }

    /// Makes sure that the heap of timers has an entry at or before the QP's deadline, and that
    /// others know the state.
    pub(super) fn arm(&self, inner: &mut Inner) {
        let (state, heard) = (inner.transport.state(), inner.transport.has_heard());
        if inner.listed != state || inner.heard != heard {
            self.list(inner);
        }

        let at = inner
            .transport
            .next_timeout()
            .unwrap_or(Time::MAX)
            .min(inner.ack_at)
            .min(inner.resume_at);

        if at < inner.armed_at {
            inner.armed_then = inner.armed_at;
            inner.armed_at = at;
            self.hca().add_timer(at, self.qp_num() as u16);
        }
    }

    /// The heap's entry came up. `may_retry`: what was not answered in time may be sent again now.
    pub(crate) fn timer_fired(&self, keys: &KeyTable, now: Time, may_retry: bool) -> Fired {
        let mut inner = self.inner.lock();
        let due = inner.transport.next_timeout().is_some_and(|t| t <= now);
        if due && !may_retry {
            return Fired::Held;
        }

        if inner.armed_at <= now {
            // Most often an ACK was waiting, and the time-out of a request comes next. An entry
            // more for it each time would fill the heap.
            let then = std::mem::replace(&mut inner.armed_then, Time::MAX);
            inner.armed_at = if then > now { then } else { Time::MAX };
        }

        if due {
            let Inner {
                transport, path, ..
            } = &mut *inner;
            let mut host = QpHost::new(self, keys, path.as_deref(), now);
            transport.handle_timeout(now, &mut host);
            self.stand_back(&mut inner);
        }

        if inner.resume_at <= now && self.holds(&inner) {
            inner.burst.in_vain();
        }
        if due || inner.ack_at <= now || inner.resume_at <= now {
            self.pump(&mut inner, keys, now, true);
        } else {
            self.arm(&mut inner);
        }

        match due {
            true => Fired::Retry,
            false => Fired::Other,
        }
    }
}

/// Flushes what is queued where nothing can be sent.
fn flush(transport: &mut ferroce_transport::Qp, host: &mut QpHost<'_>, now: Time) {
    let opts = TransmitOpts {
        window: 0,
        budget: TRANSMIT_BUDGET,
        flush_acks: true,
        fill: false,
        stretch: 0,
    };
    while transport.transmit(now, opts, host, &mut NoPath) {}
}
