//! Whether the transport sends what the capture shows, and how it is asked to.

use ferroce_transport::{Duration, Time};
use ferroce_wire::{Aeth, Ext, Operation, Packet, Syndrome, opcode};

use crate::journal::Fault;
use crate::machine::{Machine, Made};
use crate::plan::Known;

/// What an RNR wait may be short of, as clocks are read somewhat earlier or later.
const CLOCKS: Duration = Duration::from_millis(2);
/// From this exponent on T_tr itself is waited for, and little more.
const LONG_TIMEOUT: u8 = 17;

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'w, 'a> {
    /// As the capture shows it.
    Packet(&'w Packet<'a>),
    /// What a fault has kept back, of which little is said.
    Kept(Fault),
}

/// By what is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) known: Known,
    /// What is added to a message number, once that is known.
    pub(crate) offset: Option<u32>,
}

impl Wanted<'_, '_> {
    pub(crate) fn opcode(&self) -> u8 {
        match self {
            Wanted::Packet(packet) => packet.bth.opcode,
            Wanted::Kept(fault) => fault.opcode,
        }
    }

    pub(crate) fn psn(&self) -> u32 {
        match self {
            Wanted::Packet(packet) => packet.bth.psn,
            Wanted::Kept(fault) => fault.psn,
        }
    }

    pub(crate) fn is_answer(&self) -> bool {
        opcode::info(self.opcode()).is_some_and(|info| info.is_response())
    }

    /// How many responses a READ request asks for.
    fn responses(&self, mtu: u32) -> Option<u32> {
        match self {
            Wanted::Packet(packet) if packet.info.operation == Operation::ReadRequest => {
                let len = packet.ext.reth.unwrap_or_default().len;
                Some(len.div_ceil(mtu).max(1))
            }
            _ => None,
        }
    }

    /// Windows with which the transport may make it: how much may be on its way decides on how much
    /// a READ asks for at once, and which packets ask for an ACK.
    fn windows(&self, machine: &Machine) -> [u32; 2] {
        let Wanted::Packet(packet) = self else {
            return [u32::MAX; 2];
        };
        let mtu = machine.settings.path_mtu;
        let window = match packet.info.operation {
            Operation::ReadRequest => {
                let packets = u64::from(self.responses(mtu).unwrap_or(1));
                let shares = u64::from(machine.settings.max_rd_atomic.clamp(1, 4));
                (packets + 1) * u64::from(mtu) * shares - 1
            }
            _ if packet.bth.ack_req && !packet.info.ends() => {
                u64::from(machine.qp.standing().in_flight) + 2 * u64::from(mtu) - 1
            }
            _ => u64::MAX,
        };
        let window = u32::try_from(window).unwrap_or(u32::MAX);
        match packet.info.operation {
            Operation::ReadRequest => [u32::MAX, window],
            _ => [window, window],
        }
    }
}

impl Rules {
    /// What becomes of a queue pair that sends this at `time`, if it would, be it that a timer has
    /// lapsed.
    pub(crate) fn explain(
        &self,
        from: &Machine,
        want: &Wanted<'_, '_>,
        time: Time,
    ) -> Option<Machine> {
        let at_once = || self.sends(from, want, time);
        let lapsed = || self.sends(&self.lapsed(from, time)?, want, time);
        // Who sends the oldest again, by itself or with all that follows, and may have waited long
        // enough for the latter, is taken to have waited.
        let oldest = from.qp.standing().unacknowledged_psn == want.psn();
        match from.qp.shows_selective() && !want.is_answer() && oldest {
            true => lapsed().or_else(at_once),
            false => at_once().or_else(lapsed),
        }
    }

    fn sends(&self, from: &Machine, want: &Wanted<'_, '_>, time: Time) -> Option<Machine> {
        let mut from = from;
        let mut gone_on;
        // A request of another number is not the next, but one that was lost by itself.
        let next_psn = from.qp.standing().next_psn;
        if !want.is_answer() && from.is_reliable() && next_psn != want.psn() {
            if !from.qp.shows_selective() {
                return None;
            }
            let mut machine = from.clone();
            let responses = want.responses(machine.settings.path_mtu);
            let made = machine.resend(time, want.psn(), responses);
            if made.is_some_and(|made| self.agree(&made, want)) {
                return Some(machine);
            }
            gone_on = from.clone();
            gone_on.qp.go_on_from(want.psn());
            if gone_on.qp.standing().next_psn != want.psn() {
                return None;
            }
            from = &gone_on;
        }
        let windows = want.windows(from);
        let tries = if windows[0] == windows[1] || want.is_answer() {
            1
        } else {
            2
        };
        windows[..tries].iter().find_map(|window| {
            let mut machine = from.clone();
            let made = next(&mut machine, want, time, *window)?;
            self.agree(&made, want).then_some(machine)
        })
    }

    /// A queue pair whose timer has lapsed, if it may have by `time`.
    pub(crate) fn lapsed(&self, from: &Machine, time: Time) -> Option<Machine> {
        let deadline = from.qp.next_retry()?;
        let may = match from.qp.standing().waits_for_receiver {
            true => time + CLOCKS >= deadline,
            // Deadlines have something random in them, which is another's here.
            false => !self.known.attributes || time + CLOCKS + spread(from) >= deadline,
        };
        may.then(|| {
            let mut machine = from.clone();
            machine.lapse(time.max(deadline));
            machine
        })
    }

    /// A queue pair that has sent more than the capture shows before it sends this; and how many.
    pub(crate) fn beyond(
        &self,
        from: &Machine,
        want: &Wanted<'_, '_>,
        time: Time,
    ) -> Option<(Machine, u32)> {
        const MOST: u32 = 1024;
        let mut machine = from.clone();
        for sent in 0..MOST {
            if let Some(found) = self.sends(&machine, want, time) {
                return Some((found, sent));
            }
            next(&mut machine, want, time, u32::MAX)?;
        }
        None
    }

    /// Is it the same packet, as far as both are known?
    pub(crate) fn agree(&self, made: &Made, want: &Wanted<'_, '_>) -> bool {
        let (opcode, psn) = (want.opcode(), want.psn());
        if (made.bth.opcode, made.bth.psn) != (opcode, psn) {
            return false;
        }
        let Wanted::Packet(packet) = want else {
            return true;
        };

        let head = |bth: &ferroce_wire::Bth| (bth.dest_qp, bth.ack_req, bth.solicited, bth.pad);
        let rest = |ext: &Ext| Ext { aeth: None, ..*ext };
        head(&made.bth) == head(&packet.bth)
            && made.payload == packet.payload.len()
            && rest(&made.ext) == rest(&packet.ext)
            && match (made.ext.aeth, packet.ext.aeth) {
                (Some(made), Some(shown)) => self.agree_on(made, shown),
                (made, shown) => made.is_none() && shown.is_none(),
            }
    }

    fn agree_on(&self, made: Aeth, shown: Aeth) -> bool {
        let kinds = match (made.kind(), shown.kind()) {
            // How many receive requests there are is known of who was captured from the start.
            (Syndrome::Ack(made), Syndrome::Ack(shown)) => !self.known.posts || made == shown,
            (made, shown) => made == shown,
        };
        kinds
            && self
                .offset
                .is_none_or(|offset| distance(made, shown) == offset)
    }

    /// What the two say of message numbers, if a packet says something.
    pub(crate) fn offset_of(made: &Made, want: &Wanted<'_, '_>) -> Option<u32> {
        let Wanted::Packet(packet) = want else {
            return None;
        };
        Some(distance(made.ext.aeth?, packet.ext.aeth?))
    }
}

fn distance(made: Aeth, shown: Aeth) -> u32 {
    shown.msn.wrapping_sub(made.msn) & 0xff_ffff
}

/// What a queue pair sends next, of the kind that is wanted.
pub(crate) fn next(
    machine: &mut Machine,
    want: &Wanted<'_, '_>,
    time: Time,
    window: u32,
) -> Option<Made> {
    match want.is_answer() {
        true => machine.answer(),
        false => machine.request(time, window),
    }
}

/// How much earlier than its deadline a Local ACK Timeout may have lapsed.
pub(crate) fn spread(machine: &Machine) -> Duration {
    let settings = &machine.settings;
    let t = (4096_u64 << settings.timeout.min(31)).saturating_mul(settings.stretch.max(1).into());
    Duration::from_nanos(match settings.timeout {
        LONG_TIMEOUT.. => t >> 6,
        _ => t / 2,
    })
}
