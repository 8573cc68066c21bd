//! What the daemon tells all its clients: addresses that came or went, the port's state, its end.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use ferroce_control::Event;

use super::Hca;
use crate::port::ib;
use crate::progress::timers;

/// `enum ibv_event_type`
const EVENT_DEVICE_FATAL: u32 = 8;
const EVENT_PORT_ACTIVE: u32 = 9;
const EVENT_PORT_ERR: u32 = 10;
const EVENT_GID_CHANGE: u32 = 18;
/// Port events carry the port's number.
const PORT: u64 = 1;

impl Hca {
    /// Takes what the daemon has told since. Called by the helper, and after requests (whose answers events may precede).
    pub(crate) fn control_events(&self) {
        while let Some(event) = self.control.event() {
            match event {
                Event::GidChange => {
                    if let Ok(gids) = self.control.ask(|daemon| daemon.gids()) {
                        *self.gids.write() = gids;
                    }
                    if self.everywhere.load(Ordering::Relaxed)
                        && let Err(error) = self.listen_everywhere()
                    {
                        tracing::warn!(%error, "datagrams to a new address are not received");
                    }
                    self.port_event(EVENT_GID_CHANGE);
                }
                Event::PortState { active } => {
                    if self.port_active.swap(active, Ordering::Relaxed) != active {
                        self.port_event(if active {
                            EVENT_PORT_ACTIVE
                        } else {
                            EVENT_PORT_ERR
                        });
                    }
                }
                Event::Port { port, event } => {
                    let ports = self.control.ask(|daemon| daemon.ports());
                    for port in ports.into_iter().flatten() {
                        if let Ok(link) = ib::find(self.ports.links(), port.number) {
                            link.update(port);
                        }
                    }
                    self.renew_p_keys();
                    for context in self.contexts.lock().iter().filter_map(Weak::upgrade) {
                        context.async_event(port.into(), event);
                    }
                }
                Event::Shutdown => {
                    self.gone.store(true, Ordering::Relaxed);
                    // The next daemon could not bind while these are open.
                    self.receivers.write().clear();
                    self.fail_all();
                    self.port_event(EVENT_DEVICE_FATAL);
                }
            }
        }
    }

    /// Takes what the daemon told while one of our requests was waited for, if anything.
    pub(crate) fn queued_events(&self) {
        if self.control.has_event() {
            self.control_events();
        }
    }

    /// The daemon left, and with it the sockets' steering: every QP fails, as when an adapter is pulled.
    fn fail_all(&self) {
        let qps = self.qps.read_recursive();
        let keys = self.keys.read_recursive();
        let now = timers::now();
        for qp in qps.iter() {
            qp.unplugged(&mut qp.inner.lock(), &keys, now);
        }
    }

    /// The ports' tables have changed.
    fn renew_p_keys(&self) {
        for qp in self.qps.read_recursive().iter() {
            qp.renew_p_key(&qp.inner.lock());
        }
    }

    fn port_event(&self, event: u32) {
        for context in self.contexts.lock().iter().filter_map(Weak::upgrade) {
            context.async_event(PORT, event);
        }
    }
}
