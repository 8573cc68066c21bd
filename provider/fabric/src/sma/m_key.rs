//! Who may: the M_Key, its violations, and its lease.

use super::port::Port;
use super::types::{Envelope, Output};
use super::{Node, Time};
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::smp::{self, BadMKey, Directed, Notice, attribute, method};
use std::time::Duration;

impl Port {
    /// Is this the port's key, or does it not have any? A port whose key is zero checks nothing
    /// (C14-15, C14-28).
    pub(super) fn admits(&self, m_key: u64) -> bool {
        self.info.m_key == 0 || self.info.m_key == m_key
    }

    /// May a request with this method and key be answered? Reading without the key is allowed below
    /// protection level 2 (C14-16).
    fn allows(&self, method: u8, m_key: u64) -> bool {
        self.admits(m_key) || method == method::GET && self.info.m_key_protect_bits < 2
    }

    /// May the key be shown to somebody who does or does not have it?
    pub(super) fn shows_key(&self, m_key: u64) -> bool {
        self.admits(m_key) || self.info.m_key_protect_bits == 0
    }
}

impl Node {
    /// Checks the M_Key of a Get, Set or TrapRepress at the port that received it and, if it is
    /// about another port of a channel adapter, at that one too (C14-24.1.1). Each port that does
    /// not know the key counts, starts its lease and tells the subnet manager; the request is not
    /// answered then (C14-29).
    pub(super) fn check_m_key(
        &mut self,
        now: Time,
        port: u8,
        from: Envelope,
        header: &MadHeader,
        smp: &Mad,
        out: &mut impl Output,
    ) -> bool {
        let key = smp::m_key(smp);
        let received = self.key_port(port);
        let named = self.named_port(received, header);
        let mut allowed = true;
        for number in [Some(received), named].into_iter().flatten() {
            let port = self.port_mut(number).expect("both exist");
            if port.allows(header.method, key) {
                if port.admits(key) {
                    // Whoever has the key stops the lease (C14-19).
                    port.lease = None;
                }
                continue;
            }
            allowed = false;
            violated(port, now);
            let notice = Notice::BadMKey(describe(from, header, key, smp));
            self.raise(now, number, notice, out);
        }

        self.counters.dropped += u64::from(!allowed);
        allowed
    }

    /// Protection lapses when its lease has run out; the key itself stays (C14-20).
    pub(super) fn expire_leases(&mut self, now: Time) {
        for port in &mut self.ports {
            if port.lease.is_some_and(|end| end <= now) {
                port.lease = None;
                port.info.m_key_protect_bits = 0;
            }
        }
    }

    /// The other port of an adapter that a request for PortInfo is about.
    fn named_port(&self, received: u8, header: &MadHeader) -> Option<u8> {
        if self.is_switch() || header.attribute != attribute::PORT_INFO {
            return None;
        }
        let number = u8::try_from(super::port_info::port_modifier(header.modifier)).ok()?;
        (number != received && self.contains(number)).then_some(number)
    }
}

fn violated(port: &mut Port, now: Time) {
    let info = &mut port.info;
    info.m_key_violations = info.m_key_violations.saturating_add(1);
    // The lease begins with the first violation (C14-17); a period of zero is none (C14-21).
    if port.lease.is_none() && info.m_key_lease_period != 0 {
        port.lease = Some(now + Duration::from_secs(info.m_key_lease_period.into()));
    }
}

fn describe(from: Envelope, header: &MadHeader, m_key: u64, smp: &Mad) -> BadMKey {
    let route = (header.class == smp::CLASS_DIRECTED).then(|| Directed::parse(smp));
    BadMKey {
        lid: from.slid,
        dr_slid: route.map_or(0, |route| route.dr_slid),
        method: header.method,
        attribute: header.attribute,
        modifier: header.modifier,
        m_key,
        route: route.map(|route| (route.hop_count, *smp::return_path(smp))),
    }
}
