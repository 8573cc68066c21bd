//! What the daemon tells all its clients: addresses that came or went, the port's state and MTU,
//! its end.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use ferroce_control::{Event, GidEntry};

use super::Hca;
use crate::port::ib;
use crate::progress::timers;
use crate::verbs::made;

/// `enum ibv_event_type`
const EVENT_DEVICE_FATAL: u32 = 8;
const EVENT_PORT_ACTIVE: u32 = 9;
const EVENT_PORT_ERR: u32 = 10;
const EVENT_GID_CHANGE: u32 = 18;
/// The only port of a RoCE device.
const PORT: u8 = 1;

impl Hca {
    /// Takes what the daemon has told since. Called by the helper, and after requests (whose
    /// answers events may precede).
    pub(crate) fn control_events(&self) {
        // Before anything is taken: who gets an answer that came later waits for this.
        self.noticing.fetch_add(1, Ordering::Acquire);
        self.take_events();
        self.noticing.fetch_sub(1, Ordering::Release);
    }

    /// Whether a thread is taking what the daemon has told.
    pub(super) fn is_noticing(&self) -> bool {
        self.noticing.load(Ordering::Acquire) != 0
    }

    fn take_events(&self) {
        loop {
            let mut is_news = false;
            let event = self.control.event(|event| match event {
                Event::PortState { active } => is_news = self.link.set_active(*active),
                Event::Link {
                    active_mtu,
                    speed_mbps,
                } => self.link.set(*active_mtu, *speed_mbps),
                _ => {}
            });
            let Some(event) = event else { return };
            match event {
                Event::GidChange => {
                    let tables = self.control.ask(|daemon| {
                        let gids = daemon.gids()?;
                        let before = std::mem::replace(&mut *self.gids.write(), gids.clone());
                        Ok((before, gids))
                    });
                    if let Ok((before, gids)) = tables {
                        let gone = gone(&before, &gids);
                        if !gone.is_empty() {
                            self.leave_addresses(&gone);
                        }
                        let moved = moved(&before, gids);
                        if !moved.is_empty() {
                            self.follow_interfaces(&moved);
                            self.follow_groups();
                        }
                    }
                    if self.everywhere.load(Ordering::Relaxed)
                        && let Err(error) = self.listen_everywhere()
                    {
                        tracing::warn!(%error, "datagrams to a new address are not received");
                    }
                    self.port_event(PORT, EVENT_GID_CHANGE);
                }
                Event::PortState { active } => {
                    if is_news {
                        let event = match active {
                            true => EVENT_PORT_ACTIVE,
                            false => EVENT_PORT_ERR,
                        };
                        self.port_event(PORT, event);
                    }
                }
                Event::Link { .. } => self.renew_mtu(),
                Event::Port { port, event } => {
                    let renewed = self.control.ask(|daemon| {
                        for state in daemon.ports()? {
                            if let Ok(port) = ib::find(self.ports.with_cables(), state.number) {
                                port.update(state);
                            }
                        }
                        Ok(())
                    });
                    if let Err(error) = renewed {
                        tracing::debug!(%error, "the ports are as they were");
                    }
                    self.renew_p_keys();
                    self.port_event(port, event);
                }
                Event::Faults => self.renew_faults(),
                Event::Hosts => self.hosts_answered(),
                Event::Captures => {
                    while let Ok(Some((_, ring))) = self.control.ask(|daemon| daemon.capture_ring())
                    {
                        self.taps.record_into(ring);
                        self.show_queue_pairs();
                    }
                    self.taps.look_at_captures();
                }
                Event::Shutdown => {
                    self.gone.store(true, Ordering::Relaxed);
                    self.taps.end_captures();
                    // The next daemon could not bind while these are open.
                    self.receivers.write().clear();
                    self.fail_all();
                    self.link.set_active(false);
                    self.port_event(PORT, EVENT_DEVICE_FATAL);
                    self.end_events();
                }
            }
        }
    }

    /// Tells who captures what there is already.
    fn show_queue_pairs(&self) {
        let qps: Vec<_> = self.qps.read().iter().cloned().collect();
        for qp in qps.into_iter().filter(|qp| qp.is_of(self)) {
            qp.show_attributes(&qp.inner.lock());
        }
    }

    /// Takes what the daemon told while one of our requests was waited for, if anything.
    pub(crate) fn queued_events(&self) {
        if self.control.has_event() {
            self.control_events();
        }
    }

    /// The daemon left, and with it the sockets' steering: every QP fails, as when an adapter is
    /// pulled.
    fn fail_all(&self) {
        let qps = self.qps.read();
        let keys = self.keys.read();
        let now = timers::now();
        for qp in qps.iter() {
            qp.unplugged(&mut qp.inner.lock(), &keys, now);
        }
    }

    /// As with a kernel's device that is gone: who waits for events, or would, has waited in vain.
    fn end_events(&self) {
        made::end_of(self);
        for events in self.events.lock().iter().filter_map(Weak::upgrade) {
            events.end();
        }
    }

    /// The ports' tables have changed.
    fn renew_p_keys(&self) {
        for qp in self.qps.read().iter() {
            qp.renew_p_key(&qp.inner.lock());
        }
    }

    /// What is sent as datagrams from now on may be as long as the port takes now (C10-93.1.1). A
    /// connection keeps the path MTU that it was given, as with the kernel's devices.
    fn renew_mtu(&self) {
        for qp in self.qps.read().iter().filter(|qp| qp.is_of(self)) {
            // One that is being made reads the MTU under the table's lock.
            let mtu = self.datagram_mtu();
            qp.inner.lock().transport.limit_datagrams(mtu);
        }
    }

    /// Port events carry the port's number.
    fn port_event(&self, port: u8, event: u32) {
        for events in self.events.lock().iter().filter_map(Weak::upgrade) {
            events.raise(port.into(), event);
        }
    }
}

/// The GIDs that were not there before, or on other interfaces.
fn moved(before: &[GidEntry], now: Vec<GidEntry>) -> Vec<GidEntry> {
    let place = |gid: &GidEntry| (gid.addr, gid.ifindex);
    let is_new = |gid: &GidEntry| before.iter().all(|old| place(old) != place(gid));
    now.into_iter().filter(is_new).collect()
}

/// The entries whose addresses are in the table no more.
fn gone(before: &[GidEntry], now: &[GidEntry]) -> Vec<GidEntry> {
    let is_gone = |old: &&GidEntry| now.iter().all(|gid| gid.addr != old.addr);
    before.iter().filter(is_gone).cloned().collect()
}
