//! What is told by traps, and sending them.

use super::port::Port;
use super::types::{Envelope, Output, Violation};
use super::{Node, Time};
use ferroce_wire::mad::{BASE_VERSION, Mad, MadHeader};
use ferroce_wire::smp::{self, CapabilityChange, Notice, PortInfo, attribute, capability, method};
use std::time::Duration;

/// The unit of SubnetTimeOut in nanoseconds.
const TIME_UNIT: u64 = 4096;

impl Node {
    /// Data packets (`times`) for a port had a P_Key that their QP does not: counted, and one of
    /// them told by trap 257.
    pub fn p_key_violation(
        &mut self,
        now: Time,
        port: u8,
        times: u16,
        violation: Violation,
        out: &mut impl Output,
    ) {
        let count = |info: &mut PortInfo| add(&mut info.p_key_violations, times);
        self.violation(now, port, count, Notice::BadPKey(violation), out);
    }

    /// Datagrams (`times`) for a port had a Q_Key that their QP does not: counted, and one of them
    /// told by trap 258.
    pub fn q_key_violation(
        &mut self,
        now: Time,
        port: u8,
        times: u16,
        violation: Violation,
        out: &mut impl Output,
    ) {
        let count = |info: &mut PortInfo| add(&mut info.q_key_violations, times);
        self.violation(now, port, count, Notice::BadQKey(violation), out);
    }

    /// A violation at a port: counted in its attributes, and told.
    fn violation(
        &mut self,
        now: Time,
        port: u8,
        count: impl FnOnce(&mut PortInfo),
        notice: Notice,
        out: &mut impl Output,
    ) {
        if let Some(state) = self.port_mut(port) {
            count(&mut state.info);
            self.raise(now, port, notice, out);
        }
    }

    /// A threshold of a port's link has been passed: `trap` is 129, 130 or 131.
    pub fn link_errors(&mut self, now: Time, port: u8, trap: u16, out: &mut impl Output) {
        if self.port(port).is_some() {
            let number = self.key_port(port);
            let lid = self.lid(port);
            self.raise(now, number, Notice::LinkErrors(trap, lid, port), out);
        }
    }

    /// A subnet manager has come or gone behind a port: IsSM follows, and trap 144 tells.
    /// IsSMDisabled, which excludes IsSM (C14-70), is never set.
    pub fn set_is_sm(&mut self, now: Time, port: u8, is_sm: bool, out: &mut impl Output) {
        self.set_capability(now, port, capability::IS_SM, is_sm, out);
    }

    /// A capability of the host has come or gone, as bits of CapabilityMask.
    pub fn set_capability(
        &mut self,
        now: Time,
        port: u8,
        bits: u32,
        has: bool,
        out: &mut impl Output,
    ) {
        let Some(state) = self.port_mut(port) else {
            return;
        };
        let old = state.info.capability_mask;
        let new = if has { old | bits } else { old & !bits };
        state.info.capability_mask = new;
        if old != new {
            self.raise_change(now, port, false, out);
        }
    }

    /// The node has a new name, at most 64 bytes of it; trap 144 tells by every port.
    pub fn set_description(&mut self, now: Time, name: &str, out: &mut impl Output) {
        let mut end = name.len().min(64);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        if self.config.description == name[..end] {
            return;
        }

        self.config.description = name[..end].to_owned();
        let ports = if self.is_switch() {
            0..=0
        } else {
            1..=self.config.ports
        };
        for port in ports {
            self.raise_change(now, port, true, out);
        }
    }

    /// The GUID of the system has changed; trap 145 tells by every port.
    pub fn set_system_image_guid(&mut self, now: Time, guid: u64, out: &mut impl Output) {
        if std::mem::replace(&mut self.config.system_image_guid, guid) == guid {
            return;
        }
        let ports = if self.is_switch() {
            0..=0
        } else {
            1..=self.config.ports
        };
        for port in ports {
            let notice = Notice::SystemImageGuidChange(self.lid(port), guid);
            self.raise(now, port, notice, out);
        }
    }

    fn raise_change(&mut self, now: Time, port: u8, node_description: bool, out: &mut impl Output) {
        let info = self.port(port).expect("the caller has looked").info();
        let notice = Notice::CapabilityChange(CapabilityChange {
            lid: info.lid,
            capability_mask: info.capability_mask,
            node_description,
            ..CapabilityChange::default()
        });
        self.raise(now, port, notice, out);
    }

    /// Queues a trap of a port, and sends it if it may.
    pub(super) fn raise(&mut self, now: Time, port: u8, notice: Notice, out: &mut impl Output) {
        let tid = self.next_tid;
        self.next_tid = tid.wrapping_add(1);
        let number = self.key_port(port);
        let Some(port) = self.port_mut(number) else {
            return;
        };
        // Who has no subnet manager tells nobody, and does not save it up: whoever comes will look
        // at everything.
        if port.can_trap() {
            port.traps.push(notice, tid);
            self.flush_traps(now, out);
        }
    }

    pub(super) fn flush_traps(&mut self, now: Time, out: &mut impl Output) {
        let kind = self.config.kind.node_type();
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index];
            if !port.can_trap() {
                continue;
            }

            let interval = Duration::from_nanos(TIME_UNIT << port.info.subnet_timeout);
            if let Some((notice, tid)) = port.traps.next(now, interval) {
                let (number, to) = (port.number, to_subnet_manager(port));
                let smp = trap(kind, to.slid, notice, tid);
                self.counters.traps += 1;
                if self.is_own_lid(number, to.dlid) {
                    out.deliver(number, to, &smp);
                } else {
                    self.send_by_lid(number, to, &smp, out);
                }
            }
        }
    }
}

/// Violation counters stay at their highest value.
fn add(counter: &mut u16, times: u16) {
    *counter = counter.saturating_add(times);
}

fn to_subnet_manager(port: &Port) -> Envelope {
    Envelope {
        slid: port.info.lid,
        dlid: port.info.master_sm_lid,
        sl: port.info.master_sm_sl,
    }
}

/// The M_Key of a trap is 0 (o14-1).
fn trap(producer: u8, issuer: u16, notice: Notice, tid: u64) -> Mad {
    let mut smp = [0; ferroce_wire::mad::LEN];
    MadHeader {
        base_version: BASE_VERSION,
        class: smp::CLASS_LID,
        class_version: smp::CLASS_VERSION,
        method: method::TRAP,
        tid,
        attribute: attribute::NOTICE,
        ..MadHeader::default()
    }
    .emit(&mut smp);
    notice.emit(producer, issuer, smp::data_mut(&mut smp));
    smp
}
