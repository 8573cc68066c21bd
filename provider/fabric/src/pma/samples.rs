//! Sampling: count what happens at a port between two points in time.

use super::{Counter, Counters, Refusal, Totals};
use crate::cm::Time;
use ferroce_wire::pma::{Data, PortSamplesControl, PortSamplesResult, SAMPLES, sample};
use ferroce_wire::smp::status;
use std::time::Duration;

/// A tick is 10 · (n + 1) bit times at 2.5 Gb/s, so this is a microsecond.
const TICK: u8 = 249;
const TICK_TIME: Duration = Duration::from_micros(1);
/// Counters of 32 bits.
const WIDTH_32: u8 = 4;
/// Every counter can count what is mandatory.
const MASK: u32 = 0o1;
const MASKS_9: u32 = 0o111_111_111;
const MASKS_5: u16 = 0o11111;

/// Values of SampleStatus.
mod sample_status {
    pub(super) const DONE: u8 = 0;
    pub(super) const STARTED: u8 = 1;
    pub(super) const RUNNING: u8 = 2;
}

/// One sampling at a time, at any port.
#[derive(Debug)]
pub(super) struct Samples {
    first: u8,
    last: u8,
    control: PortSamplesControl,
    phase: Phase,
    /// What the last sampling has found.
    found: [u64; SAMPLES],
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Done,
    Waiting { start: Time },
    Running { end: Time, before: Totals },
}

impl Samples {
    pub(super) fn new(first: u8, last: u8) -> Samples {
        Samples {
            first,
            last,
            control: PortSamplesControl {
                port_select: first,
                ..PortSamplesControl::default()
            },
            phase: Phase::Done,
            found: [0; SAMPLES],
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        match self.phase {
            Phase::Done => None,
            Phase::Waiting { start } => Some(start),
            Phase::Running { end, .. } => Some(end),
        }
    }

    /// Starts and ends what is due.
    pub(super) fn advance(&mut self, now: Time, counters: &impl Counters) {
        if let Phase::Waiting { start } = self.phase
            && start <= now
        {
            // It runs from when somebody looked, in case nobody did in time.
            self.phase = Phase::Running {
                end: now + ticks(self.control.sample_interval),
                before: counters.totals(self.control.port_select),
            };
        }

        if let Phase::Running { end, before } = self.phase
            && end <= now
        {
            self.found = self.difference(&before, counters);
            self.phase = Phase::Done;
        }
    }

    /// Get and Set of PortSamplesControl. A Set while sampling is under way changes nothing, as the
    /// answer shows.
    pub(super) fn control(
        &mut self,
        now: Time,
        is_set: bool,
        wanted: PortSamplesControl,
        data: &mut Data,
        counters: &impl Counters,
    ) -> Result<(), Refusal> {
        if !(self.first..=self.last).contains(&wanted.port_select) {
            return Err(status::INVALID_VALUE);
        }

        if is_set && self.status() == sample_status::DONE {
            if selects(&wanted)
                .into_iter()
                .any(|select| select > sample::XMIT_WAIT)
            {
                return Err(status::INVALID_VALUE);
            }
            self.control = wanted;
            self.found = [0; SAMPLES];
            self.phase = Phase::Waiting {
                start: now + ticks(wanted.sample_start),
            };
            self.advance(now, counters);
        }

        PortSamplesControl {
            tick: TICK,
            counter_width: WIDTH_32,
            counter_mask0: MASK as u8,
            counter_masks1_to_9: MASKS_9,
            counter_masks10_to_14: MASKS_5,
            sample_mechanisms: 0,
            sample_status: self.status(),
            option_mask: 0,
            vendor_mask: 0,
            op_code: wanted.op_code,
            ..self.control
        }
        .emit(data);

        Ok(())
    }

    /// The samples, as far as they have come.
    pub(super) fn result(&self, counters: &impl Counters) -> PortSamplesResult {
        let found = match &self.phase {
            Phase::Done | Phase::Waiting { .. } => self.found,
            Phase::Running { before, .. } => self.difference(before, counters),
        };
        PortSamplesResult {
            tag: self.control.tag,
            sample_status: self.status(),
            counters: found,
        }
    }

    fn status(&self) -> u8 {
        match self.phase {
            Phase::Done => sample_status::DONE,
            Phase::Waiting { .. } => sample_status::STARTED,
            Phase::Running { .. } => sample_status::RUNNING,
        }
    }

    fn difference(&self, before: &Totals, counters: &impl Counters) -> [u64; SAMPLES] {
        let after = counters.totals(self.control.port_select);
        selects(&self.control).map(|select| {
            sampled(select).map_or(0, |counter| after[counter].wrapping_sub(before[counter]))
        })
    }
}

fn ticks(ticks: u32) -> Duration {
    ticks * TICK_TIME
}

/// What a CounterSelect means; zero is nothing.
fn sampled(select: u16) -> Option<Counter> {
    Some(match select {
        sample::XMIT_DATA => Counter::XmitData,
        sample::RCV_DATA => Counter::RcvData,
        sample::XMIT_PACKETS => Counter::XmitPackets,
        sample::RCV_PACKETS => Counter::RcvPackets,
        sample::XMIT_WAIT => Counter::XmitWait,
        _ => return None,
    })
}

fn selects(control: &PortSamplesControl) -> [u16; SAMPLES] {
    [
        control.counter_select0,
        control.counter_select1,
        control.counter_select2,
        control.counter_select3,
        control.counter_select4,
        control.counter_select5,
        control.counter_select6,
        control.counter_select7,
        control.counter_select8,
        control.counter_select9,
        control.counter_select10,
        control.counter_select11,
        control.counter_select12,
        control.counter_select13,
        control.counter_select14,
    ]
}
