//! An agent, the totals that it shows, and whoever asks it.

use ferroce_fabric::cm::Time;
use ferroce_fabric::pma::{Counters, Pma, Totals};
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::pma::{
    self, Data, PortCounters, PortCountersExtended, PortSamplesControl, attribute,
};
use ferroce_wire::smp::method;

pub(crate) const MICROSECOND: u64 = 1000;

/// Totals of ports 1 and 2.
pub(crate) struct Data2(pub [Totals; 2]);

impl Counters for Data2 {
    fn totals(&self, port: u8) -> Totals {
        self.0[usize::from(port - 1)]
    }
}

/// An agent of two ports, with what it counts and the time.
pub(crate) struct Bench {
    pub pma: Pma,
    pub totals: Data2,
    pub now: u64,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench {
            pma: Pma::new(1, 2),
            totals: Data2([Totals::default(); 2]),
            now: 0,
        }
    }

    pub(crate) fn ask(
        &mut self,
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> (u16, Data) {
        let answer = self
            .exchange(&mad(method, attribute, modifier, data))
            .unwrap();
        let header = MadHeader::parse(&answer).unwrap();
        assert_eq!(
            (header.method, header.attribute, header.tid),
            (method::GET_RESP, attribute, 77)
        );
        (header.status, *pma::data(&answer))
    }

    pub(crate) fn exchange(&mut self, mad: &Mad) -> Option<Mad> {
        self.pma
            .receive(Time::from_nanos(self.now), mad, &self.totals)
    }

    pub(crate) fn narrow(&mut self, port: u8) -> PortCounters {
        let (status, data) = self.ask(method::GET, attribute::PORT_COUNTERS, 0, &of_port(port));
        assert_eq!(status, 0);
        let counters = PortCounters::parse(&data);
        assert_eq!(counters.port_select, port);
        counters
    }

    pub(crate) fn extended(&mut self, port: u8) -> PortCountersExtended {
        let (status, data) = self.ask(
            method::GET,
            attribute::PORT_COUNTERS_EXTENDED,
            0,
            &of_port(port),
        );
        assert_eq!(status, 0);
        PortCountersExtended::parse(&data)
    }

    pub(crate) fn set_narrow(&mut self, counters: PortCounters) -> PortCounters {
        let mut data = [0; pma::DATA_LEN];
        counters.emit(&mut data);
        let (status, data) = self.ask(method::SET, attribute::PORT_COUNTERS, 0, &data);
        assert_eq!(status, 0);
        PortCounters::parse(&data)
    }

    pub(crate) fn control(
        &mut self,
        method: u8,
        control: PortSamplesControl,
    ) -> (u16, PortSamplesControl) {
        let mut data = [0; pma::DATA_LEN];
        control.emit(&mut data);
        let (status, data) = self.ask(method, attribute::PORT_SAMPLES_CONTROL, 0, &data);
        (status, PortSamplesControl::parse(&data))
    }

    /// Tag, status and the first counters.
    pub(crate) fn result(&mut self) -> (u16, u8, u32, u32) {
        let (_, data) = self.ask(
            method::GET,
            attribute::PORT_SAMPLES_RESULT,
            0,
            &[0; pma::DATA_LEN],
        );
        let word = |at: usize| u32::from_be_bytes(*data[at..].first_chunk().unwrap());
        (
            u16::from_be_bytes([data[0], data[1]]),
            data[3],
            word(4),
            word(8),
        )
    }
}

/// A request to the agent.
pub(crate) fn mad(method: u8, attribute: u16, modifier: u32, data: &Data) -> Mad {
    let mut mad = [0; LEN];
    MadHeader {
        base_version: 1,
        class: pma::CLASS,
        class_version: 1,
        method,
        tid: 77,
        attribute,
        modifier,
        ..MadHeader::default()
    }
    .emit(&mut mad);
    *pma::data_mut(&mut mad) = *data;
    mad
}

/// An attribute that names a port.
pub(crate) fn of_port(port: u8) -> Data {
    let mut data = [0; pma::DATA_LEN];
    data[1] = port;
    data
}
