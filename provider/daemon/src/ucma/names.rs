//! Making known which IP address a port has: a ServiceRecord with the subnet administrator, by
//! whose name the others find its GID. It is renewed while the port is active; a subnet manager
//! that starts anew has forgotten it, and says so.
//!
//! A record with another GID or P_Key is another record, so the one before is taken back. What a
//! host has left that died, or that may not speak of its old P_Key any more, stays until its lease
//! is over: of several records for an address the latest is believed, as of ARP's announcements.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferroce_fabric::cm::Time;
use ferroce_fabric::sa::{Answer, Question, Record};
use ferroce_wire::mad::DEFAULT_PKEY;
use ferroce_wire::mad::Gid;
use ferroce_wire::sa::{ServiceRecord, attribute, component, method};
use ferroce_wire::smp::state::ACTIVE;

use super::addr::gid_of;
use super::host::Host;
use super::questions::{Asker, Questions};
use super::route::port_of;

/// The service of having an address. The first byte says that the number is of a local system's
/// making.
const SERVICE_ID: u64 = 0x0200_0000_6665_6970;
/// Seconds for which a record is kept.
const LEASE: u32 = 120;
/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(40);
/// How long to wait when it was refused.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a change must be past. While the subnet manager activates one port after another, a
/// packet from one that is active makes the next so in its place (armed ports become active by
/// data), and it takes its own Set's refusal for an error.
const SETTLING: Duration = Duration::from_millis(500);

/// One port's record.
#[derive(Clone, Copy, Debug, Default)]
struct Name {
    asks: Option<u32>,
    again: Option<Time>,
    /// What the administrator has, or was asked to take.
    known: Option<ServiceRecord>,
}

/// The ports' records, by the ports' numbers from 1.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Name>);

impl Names {
    /// When the next renewal is due.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.0.iter().filter_map(|name| name.again).min()
    }

    /// The ports have changed, or their subnet manager has, or it wants to be told anew: makes
    /// known all addresses.
    pub(super) fn publish(&mut self, questions: &mut Questions, host: &Host<'_>) {
        self.0.resize(host.ports.len(), Name::default());
        for name in &mut self.0 {
            if let Some(number) = name.asks.take() {
                questions.forget(number);
            }
            name.again = Some(host.now + SETTLING);
        }
    }

    /// Renews what is due.
    pub(super) fn renew(&mut self, questions: &mut Questions, host: &Host<'_>) {
        for (name, port) in self.0.iter_mut().zip(1..) {
            if name.again.is_some_and(|again| again <= host.now) {
                name.publish(port, questions, host);
            }
        }
    }

    /// The device goes: its addresses are nobody's.
    pub(super) fn withdraw(&self, questions: &mut Questions, host: &Host<'_>) {
        for (name, port) in self.0.iter().zip(1..) {
            if let Some(record) = &name.known {
                // Nobody will be here for the answer.
                withdraw(record, port, Duration::ZERO, questions, host);
            }
        }
    }

    /// The subnet administrator has taken a record, or has not.
    pub(super) fn answered(&mut self, port: u8, answer: Answer, now: Time) {
        let Some(name) = self.0.get_mut(usize::from(port) - 1) else {
            return;
        };
        name.asks = None;
        name.again = Some(now + if answer.is_ok() { RENEWAL } else { PAUSE });
        match answer {
            Ok(_) => tracing::debug!(port, "the port's address is known"),
            Err(failure) => tracing::warn!(port, ?failure, "nobody knows the port's address"),
        }
    }
}

impl Name {
    fn publish(&mut self, port: u8, questions: &mut Questions, host: &Host<'_>) {
        self.again = None;
        if let Some(number) = self.asks.take() {
            questions.forget(number);
        }
        let Some(state) = host.port(port).filter(|port| port.state == ACTIVE) else {
            return;
        };

        let has_address = |gid: Gid, addr: IpAddr| gid != gid_of(addr);
        let entry = host
            .gids
            .entries()
            .find(|entry| port_of(entry.index) == port && has_address(entry.gid, entry.addr));
        let pkey = state.p_keys.first().copied().unwrap_or(DEFAULT_PKEY);
        let mut wanted = entry.map(|entry| record(entry.addr, entry.gid, pkey, now()));
        let before = self.known.take();
        if let (Some(wanted), Some(before)) = (&mut wanted, &before)
            && (wanted.gid, wanted.name) == (before.gid, before.name)
        {
            // Renewed, it is no later than it was.
            wanted.number = before.number;
        }

        let rid = |record: &ServiceRecord| (record.gid, record.pkey);
        if let Some(before) = before.filter(|before| wanted.as_ref().map(rid) != Some(rid(before)))
        {
            withdraw(&before, port, RENEWAL, questions, host);
        }
        let Some(wanted) = wanted else {
            return;
        };

        self.known = Some(wanted);
        for number in questions.asked_by(Asker::Withdrawal(port, wanted.gid, wanted.pkey)) {
            questions.forget(number);
        }
        let mask = component::SERVICE_LEASE | component::SERVICE_NAME | component::SERVICE_DATA;
        let question = about(&wanted, port, (method::SET, mask));
        let asked = questions.ask(Asker::Name(port), question, RENEWAL, host.now);
        self.asks = asked.ok();
        self.again = self.asks.is_none().then_some(host.now + PAUSE);
    }
}

/// Takes back what was made known of a port.
fn withdraw(
    record: &ServiceRecord,
    port: u8,
    patience: Duration,
    questions: &mut Questions,
    host: &Host<'_>,
) {
    let asker = Asker::Withdrawal(port, record.gid, record.pkey);
    let question = about(record, port, (method::DELETE, 0));
    let _ = questions.ask(asker, question, patience, host.now);
}

/// A question about one record, with these components beside those that identify it.
fn about(record: &ServiceRecord, port: u8, (method, mask): (u8, u64)) -> Question {
    Question {
        port,
        method,
        attribute: attribute::SERVICE_RECORD,
        mask: component::SERVICE_RID | mask,
        data: record.emit(),
        patient: false,
    }
}

/// Milliseconds since 1970: hosts must compare them.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// The GID of the latest of these records of an address.
pub(super) fn latest(records: &[Record]) -> Option<Gid> {
    let records = records.iter().map(ServiceRecord::parse);
    let latest = records.max_by_key(|record| (record.number, record.gid))?;
    Some(latest.gid)
}

/// The record of an address that a port has had since then, in milliseconds since 1970.
pub(super) fn record(addr: IpAddr, gid: Gid, pkey: u16, since: u64) -> ServiceRecord {
    let mut name = [0; 64];
    let text = format!("ferroce IP {addr}");
    name[..text.len()].copy_from_slice(text.as_bytes());
    ServiceRecord {
        id: SERVICE_ID,
        gid,
        pkey,
        lease: LEASE,
        name,
        data: gid_of(addr),
        number: since,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_a_name_of_its_own_that_fits() {
        let name = |ip: &str| record(ip.parse().unwrap(), [0; 16], DEFAULT_PKEY, 0).name;
        assert_ne!(name("192.0.2.1"), name("192.0.2.11"));
        let long = name("fd00:1111:2222:3333:4444:5555:6666:7777");
        assert_eq!(long[50..], [0; 14]);
        assert_eq!(name("192.0.2.1")[..21], *b"ferroce IP 192.0.2.1\0");
    }

    #[test]
    fn of_several_records_the_latest_is_believed() {
        let of = |gid: u8, since| {
            let addr = "192.0.2.1".parse().unwrap();
            record(addr, [gid; 16], DEFAULT_PKEY, since).emit()
        };
        assert_eq!(latest(&[]), None);
        assert_eq!(latest(&[of(2, 0)]), Some([2; 16]));
        assert_eq!(latest(&[of(2, 5), of(1, 9), of(3, 7)]), Some([1; 16]));
    }
}
