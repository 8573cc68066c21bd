//! Devices with more ports than cables to them, and with one port: a sound one never fails, and
//! what could not be looked at is said.

use anyhow::Result;
use ferroce_ibta::execute::execute;
use ferroce_ibta::protocol::{Command, Reply};
use ferroce_ibta::rig::{Backend, Envelope};
use ferroce_ibta::run::{TestResult, Verdict};
use ferroce_ibta::sim::{MadFaults, MadSim};
use ferroce_ibta::trace::Trace;
use ferroce_ibta::{MadRig, Stop, Test, TransportRig, suite};
use ferroce_wire::mad::Mad;
use std::time::Duration;

/// Simulated devices with so many ports, the first of which have cables.
struct Cabled {
    ports: u8,
    cables: u8,
}

impl Backend for Cabled {
    fn transport(&mut self) -> Result<Box<dyn TransportRig + '_>> {
        anyhow::bail!("only tests of management are run here")
    }

    fn mad(&mut self, _ports: u8, lanes: u8) -> Result<Box<dyn MadRig + '_>, Stop> {
        Ok(Box::new(Rig {
            rig: MadSim::new(self.ports, lanes, MadFaults::default()),
            cables: self.cables,
        }))
    }
}

struct Rig {
    rig: MadSim,
    cables: u8,
}

impl MadRig for Rig {
    fn now(&self) -> Duration {
        self.rig.now()
    }

    fn ports(&self) -> u8 {
        self.cables
    }

    fn transmit(&mut self, port: u8, packet: &[u8]) -> Result<()> {
        self.rig.transmit(port, packet)
    }

    fn receive(&mut self, port: u8, within: Duration) -> Result<Option<(Envelope, Mad)>> {
        self.rig.receive(port, within)
    }

    fn link(&mut self, port: u8, up: bool) -> Result<()> {
        self.rig.link(port, up)
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        self.rig.command(command)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        self.rig.sleep(time)
    }

    fn trace(&self) -> &Trace {
        self.rig.trace()
    }
}

/// How the suite's tests of management end on a device with so many ports and cables.
fn results(ports: u8, cables: u8) -> Vec<TestResult> {
    let tests = suite::all().into_iter().filter(Test::is_of_management);
    tests
        .map(|test| execute(&test, &mut Cabled { ports, cables }, Box::new(|_| {})).0)
        .collect()
}

/// The tests that did not pass, and why.
fn others(results: &[TestResult]) -> Vec<(&str, Verdict, &str)> {
    let open = results.iter().filter(|test| test.result != Verdict::Pass);
    open.map(|test| (test.id.as_str(), test.result, test.reason.as_str()))
        .collect()
}

/// Tests that cannot do without a second port.
const OF_TWO_PORTS: [&str; 5] = [
    "C14_017_06",
    "C14_024_06_CA_04",
    "S07_2_05",
    "S07_2_06",
    "S14_2_5_1_128",
];
/// Tests of one port or many, that compare them where there are several.
const COMPARING: [&str; 2] = ["C14_024_07", "C14_024_15"];

#[test]
fn a_port_without_a_cable_is_inconclusive_where_it_is_needed() {
    let results = results(2, 1);
    let others = others(&results);
    for (id, verdict, why) in &others {
        assert_eq!(*verdict, Verdict::Inconclusive, "{id}: {why}");
        let says = why.contains("the device has 2 ports") && why.contains("add --cable");
        assert!(says, "{id}: {why}");
    }

    let mut ids: Vec<&str> = others.iter().map(|(id, ..)| *id).collect();
    ids.sort_unstable();
    let mut due = [&OF_TWO_PORTS[..], &COMPARING].concat();
    due.sort_unstable();
    assert_eq!(ids, due);
}

#[test]
fn what_needs_two_ports_is_not_for_a_device_with_one() {
    let results = results(1, 1);
    let others = others(&results);
    for (id, verdict, why) in &others {
        assert_eq!(*verdict, Verdict::NotApplicable, "{id}: {why}");
        assert!(why.contains("the device has one port"), "{id}: {why}");
    }

    let mut ids: Vec<&str> = others.iter().map(|(id, ..)| *id).collect();
    ids.sort_unstable();
    assert_eq!(ids, OF_TWO_PORTS);

    for test in results
        .iter()
        .filter(|test| COMPARING.contains(&test.id.as_str()))
    {
        let own = test
            .assertions
            .iter()
            .find(|rule| rule.id.ends_with("#own"));
        let own = own.expect("it compares ports");
        assert_eq!(own.result, Verdict::NotApplicable, "{}", test.id);
        assert!(own.reason.contains("one port"), "{}", own.reason);
    }
}

#[test]
fn a_third_port_without_a_cable_is_one_that_exists() {
    let results = results(3, 2);
    let others = others(&results);
    let ids: Vec<&str> = others.iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids, ["C14_024_06_CA_04"], "{others:?}");
}
