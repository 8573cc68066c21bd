//! The performance management agent (section 16.1): what a port has sent, received and lost.
//!
//! A [`Pma`] takes MADs of the class, the time, and a view of the node's running totals
//! ([`Counters`]), and gives the answer. Totals only grow; what a counter shows is the difference
//! to what it was when somebody reset it, and stops at the counter's width. The narrow counters and
//! those of 64 bits are reset separately.
//!
//! There are the mandatory attributes and PortCountersExtended. All others are refused: nothing is
//! counted by lane or service level. Cables have no flow control of their own, so nobody waits for
//! credits: PortXmitWait is not offered, and a sample of it is zero.

mod counters;
mod samples;

pub use counters::{COUNTERS, Counter, Counters, Totals};

use crate::cm::Time;
use crate::gsi::{self, Class};
use counters::{EXTENDED, NARROW, View};
use ferroce_wire::mad::{BASE_VERSION, Mad, MadHeader};
use ferroce_wire::pma::{
    self, CLASS, CLASS_VERSION, ClassPortInfo, Data, PortCounters, PortCountersExtended,
    PortSamplesControl, attribute, capability,
};
use ferroce_wire::smp::{method, status};
use samples::Samples;

/// What the agent takes.
const TAKEN: Class = Class {
    version: CLASS_VERSION,
    methods: &[method::GET, method::SET],
};

/// The performance management agent of one node.
#[derive(Debug)]
pub struct Pma {
    narrow: View,
    extended: View,
    samples: Samples,
}

/// What an answer is refused with.
type Refusal = u16;

impl Pma {
    /// An agent for ports `first` (0 of a switch, else 1) to `last`. All counters begin with the
    /// totals as they are.
    pub fn new(first: u8, last: u8) -> Pma {
        Pma {
            narrow: View::new(NARROW, first, last),
            extended: View::new(EXTENDED, first, last),
            samples: Samples::new(first, last),
        }
    }

    /// The answer to a MAD that came to QP1 of any port; `None` if none is due.
    pub fn receive(&mut self, now: Time, mad: &Mad, counters: &impl Counters) -> Option<Mad> {
        let mut header = MadHeader::parse(mad)?;
        if header.class != CLASS || !gsi::is_asked(&header) {
            return None;
        }
        let mut answer = *mad;
        let result = self.carry_out(now, &header, pma::data_mut(&mut answer), counters);
        header.method = method::GET_RESP;
        header.status = result.err().unwrap_or(0);
        header.emit(&mut answer);
        Some(answer)
    }

    /// A port's counters as the attributes show them, resets included, by the names that Linux has
    /// for them in sysfs. Those that have a wide counter show that one. Nothing of a port that
    /// there is not.
    pub fn named(&self, port: u8, counters: &impl Counters) -> Vec<(&'static str, u64)> {
        let totals = counters.totals(port);
        let wide = self.extended.values(port, &totals);
        let narrow = self.narrow.values(port, &totals);
        let mut named: Vec<(&'static str, u64)> = Vec::new();
        for (counter, value) in wide.chain(narrow) {
            let name = counter.name();
            if named.iter().all(|(other, _)| *other != name) {
                named.push((name, value));
            }
        }

        if !named.is_empty() {
            // Linux has it of every port, whether the hardware counts it or not.
            named.push((Counter::XmitWait.name(), totals[Counter::XmitWait]));
        }

        named
    }

    /// When [`handle_timeout`](Pma::handle_timeout) is due: at the start and at the end of
    /// sampling.
    pub fn next_timeout(&self) -> Option<Time> {
        self.samples.next_timeout()
    }

    /// Time has passed: sampling starts or ends.
    pub fn handle_timeout(&mut self, now: Time, counters: &impl Counters) {
        self.samples.advance(now, counters);
    }

    fn carry_out(
        &mut self,
        now: Time,
        header: &MadHeader,
        data: &mut Data,
        counters: &impl Counters,
    ) -> Result<(), Refusal> {
        TAKEN.check(header)?;
        let is_set = header.method == method::SET;
        let known = matches!(
            (header.attribute, is_set),
            (attribute::CLASS_PORT_INFO, false)
                | (attribute::PORT_SAMPLES_RESULT, false)
                | (attribute::PORT_SAMPLES_RESULT_EXTENDED, false)
                | (attribute::PORT_SAMPLES_CONTROL, _)
                | (attribute::PORT_COUNTERS, _)
                | (attribute::PORT_COUNTERS_EXTENDED, _)
        );

        if !known {
            return Err(status::UNSUPPORTED_ATTRIBUTE);
        }
        if header.modifier != 0 {
            return Err(status::INVALID_VALUE);
        }

        self.samples.advance(now, counters);
        match header.attribute {
            attribute::CLASS_PORT_INFO => class_port_info().emit(data),
            attribute::PORT_COUNTERS => {
                let asked = PortCounters::parse(data);
                // CounterSelect2 selects PortXmitWait alone.
                let select = is_set.then_some(asked.counter_select.into());
                self.narrow
                    .answer(asked.port_select, select, data, counters)?;
            }
            attribute::PORT_COUNTERS_EXTENDED => {
                let asked = PortCountersExtended::parse(data);
                let select = is_set.then_some(asked.counter_select.into());
                self.extended
                    .answer(asked.port_select, select, data, counters)?;
            }
            attribute::PORT_SAMPLES_CONTROL => {
                let asked = PortSamplesControl::parse(data);
                self.samples.control(now, is_set, asked, data, counters)?;
            }
            attribute::PORT_SAMPLES_RESULT => self.samples.result(counters).emit(data),
            _ => self.samples.result(counters).emit_extended(data),
        }

        Ok(())
    }
}

fn class_port_info() -> ClassPortInfo {
    ClassPortInfo {
        base_version: BASE_VERSION,
        class_version: CLASS_VERSION,
        capability_mask: capability::ALL_PORT_SELECT | capability::EXTENDED_WIDTH,
        resp_time_value: 16,
        ..ClassPortInfo::default()
    }
}
