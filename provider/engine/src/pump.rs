//! Making a queue pair move: sending what may be sent, and its timer.

use ferroce_control::Counter;
use ferroce_transport::{Time, TransmitOpts};

use crate::keys::KeyTable;
use crate::qp::{Inner, Qp};
use crate::qp_host::QpHost;
use crate::timers;
use crate::tx::{self, NoPath};

/// Payload bytes handed to the socket in one go.
const BUDGET: u32 = 256 << 10;
/// How long an acknowledgement waits for a request of ours to go out beside.
const ACK_DELAY: Time = 20_000;

impl Qp {
    pub(crate) fn set_active(&self, inner: &mut Inner, active: bool) {
        if inner.active != active
            && let Some(path) = &inner.path
        {
            path.congestion.qp_active(active);
            inner.active = active;
        }
    }

    /// Sends what may be sent and sets the timer. `flush_acks`: also an ACK that could wait for company.
    pub(crate) fn pump(&self, inner: &mut Inner, keys: &KeyTable, now: Time, flush_acks: bool) {
        inner.held = 0;
        let Inner {
            transport, path, ..
        } = inner;
        let mut host = QpHost::new(self, keys, path.as_deref(), now);
        if let Some(path) = path.as_deref() {
            let counters = self.hca().counters();
            tx::with_run(path, keys, self.peer(), counters, |run| {
                let opts = TransmitOpts {
                    window: path.congestion.share(),
                    budget: BUDGET,
                    flush_acks,
                };
                while transport.transmit(now, opts, &mut host, run) {}
            });
        } else {
            flush(transport, &mut host, now);
        }
        if host.overrun {
            self.overrun(inner, keys, now);
        }
        let busy = inner.transport.has_requests_in_flight();
        self.set_active(inner, busy);
        inner.ack_at = match inner.transport.has_pending_ack() {
            true if inner.ack_at == Time::MAX => {
                self.hca().counters().add(Counter::AckDeferred, 1);
                now + ACK_DELAY
            }
            true => inner.ack_at,
            false => Time::MAX,
        };
        self.arm(inner);
    }

    /// Sends an ACK that was held back, as nothing will go out beside it any more.
    pub(crate) fn send_last_ack(&self, inner: &mut Inner) {
        if self.hca().alive() && inner.transport.has_pending_ack() {
            let keys = self.hca().keys.read_recursive();
            self.pump(inner, &keys, timers::now(), true);
        }
    }

    /// The process ends: as [`send_last_ack`](Self::send_last_ack), if no thread is in the way.
    pub(crate) fn exiting(&self) {
        if let Some(mut inner) = self.try_lock()
            && inner.ack_at != Time::MAX
            && self.hca().keys.try_read_recursive().is_some()
        {
            self.send_last_ack(&mut inner);
        }
    }

    /// A completion had no room: the queue pair fails (the CQ has said so by its own event).
    pub(crate) fn overrun(&self, inner: &mut Inner, keys: &KeyTable, now: Time) {
        let mut host = QpHost::new(self, keys, None, now);
        inner
            .transport
            .fail(&mut host, Some(ferroce_transport::QpEvent::Fatal));
        flush(&mut inner.transport, &mut host, now);
    }

    /// Makes sure that the heap of timers has an entry at or before the QP's deadline.
    fn arm(&self, inner: &mut Inner) {
        let at = inner
            .transport
            .next_timeout()
            .unwrap_or(Time::MAX)
            .min(inner.ack_at);
        if at < inner.armed_at {
            inner.armed_at = at;
            self.hca().add_timer(at, self.qp_num() as u16);
        }
    }

    /// The heap's entry came up.
    pub(crate) fn timer_fired(&self, keys: &KeyTable, now: Time) {
        let Some(mut inner) = self.lock() else {
            self.hca().add_timer(now + ACK_DELAY, self.qp_num() as u16);
            return;
        };
        inner.armed_at = Time::MAX;
        let due = inner.transport.next_timeout().is_some_and(|t| t <= now);
        if due {
            let Inner {
                transport, path, ..
            } = &mut *inner;
            let mut host = QpHost::new(self, keys, path.as_deref(), now);
            transport.handle_timeout(now, &mut host);
        }
        if due || inner.ack_at <= now {
            self.pump(&mut inner, keys, now, true);
        } else {
            self.arm(&mut inner);
        }
    }
}

/// Flushes what is queued where nothing can be sent.
fn flush(transport: &mut ferroce_transport::Qp, host: &mut QpHost<'_>, now: Time) {
    let opts = TransmitOpts {
        window: 0,
        budget: BUDGET,
        flush_acks: true,
    };
    while transport.transmit(now, opts, host, &mut NoPath) {}
}
