//! Client reregistration as the note of August 2004 has it: IsClientReregistrationSupported is bit
//! 4 of PortInfo:CapabilityMask.
//!
//! The published specification has it at bit 25, and another capability at bit 4. A device that
//! follows that one, and does not have the other, announces nothing in the note's reading:
//! o14-13.1.yy and o11-6.1.2 are not about it, and o14-13.2.yy forbids it to answer a
//! SubnSet(PortInfo) with ClientReregister 1, which it does.

use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::protocol::{AsyncEvent, Reply};
use crate::run::{Outcome, Run, Stop};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use crate::suite::mad::events::SILENCE;
use crate::suite::mad::mutants::field;
use crate::suite::mad::reregister::{CLIENT_REG_SUP, CLIENT_REREGISTER};
use ferroce_wire::bits::{Access, Field};
use ferroce_wire::smp::{DATA_LEN, Data, attribute, method};
use std::time::Duration;

/// IsClientReregistrationSupported, the note's item 1.
const SUPPORTED: u32 = 1 << 4;
/// ClientReregister, the note's item 2.
const REREGISTER: Field = Field {
    name: "client_reregister",
    bit: 408,
    bits: 1,
    access: Access::Rw,
};

const RESPONSE: &str = "o14-13.1.yy#response";
const EVENT: &str = "o14-13.1.yy#event";
const ONLY: &str = "o14-13.2.yy";
const READ: &str = "item-4#port-cap-flags";
const RAISED: &str = "o11-6.1.2";

pub(super) fn tests() -> Vec<Test> {
    vec![
        responds_and_tells(),
        in_no_other_case(),
        programs_read_it(),
        raised(),
    ]
}

/// A device that has what the published specification says, but announces it where the note does,
/// to the subnet manager and to programs.
pub fn announced_at_bit_4() -> MadFaults {
    MadFaults::default()
        .tx_edit(|_, mad| {
            if mad.answers(attribute::PORT_INFO) {
                let mask = field("capability_mask");
                let moved = moved(mask.load(mad.data()) as u32);
                mask.store(mad.data_mut(), moved.into());
            }
        })
        .reply(|reply| {
            if let Reply::Port(state) = reply {
                state.capabilities = moved(state.capabilities);
            }
        })
}

fn moved(mask: u32) -> u32 {
    match mask & CLIENT_REG_SUP {
        0 => mask,
        _ => mask & !CLIENT_REG_SUP | SUPPORTED,
    }
}

/// PortInfo of a port, that commands no change of state when it is written back; and whether it
/// announces client reregistration.
fn port_info(run: &mut Run, tester: &mut Tester<'_>, port: u8) -> Outcome<(Data, bool)> {
    run.step("1", format!("SubnGet(PortInfo) to port {port}"));
    let info = tester.port_info_data(port, 0)?;
    let supported = info.capability_mask & SUPPORTED != 0;
    run.note(format!(
        "IsClientReregistrationSupported, bit 4 of CapabilityMask {:#010x}, is {}",
        info.capability_mask,
        u8::from(supported)
    ));
    let mut data = [0; DATA_LEN];
    info.emit(&mut data);
    Ok((data, supported))
}

fn only_if_announced(supported: bool) -> Outcome {
    match supported {
        true => Ok(()),
        false => Err(Stop::NotApplicable(
            "IsClientReregistrationSupported, bit 4 of PortInfo:CapabilityMask, is 0".to_owned(),
        )),
    }
}

fn set(data: &Data, reregister: u8) -> Smp {
    let mut data = *data;
    REREGISTER.store(&mut data, reregister.into());
    Smp::set(attribute::PORT_INFO, data)
}

fn shown(data: &Data) -> u128 {
    REREGISTER.load(data)
}

/// o14-13.1.yy.
fn responds_and_tells() -> Test {
    test(
        "O14_013_01",
        "o14-13",
        "as written, bit 4: SubnSet(PortInfo) with ClientReregister 1 is answered with 1 and raises the event",
        |run, tester| {
            for port in 1..=tester.ports() {
                let (data, supported) = port_info(run, tester, port)?;
                only_if_announced(supported)?;
                tester.forget_events()?;
                run.step("2", "SubnSet(PortInfo) with ClientReregister, offset 408, 1");
                let answer = tester.must_answer(run, RESPONSE, port, &set(&data, 1))?;
                run.step("3", "SubnGetResp(PortInfo) has ClientReregister 1");
                run.check_eq(RESPONSE, "ClientReregister", shown(answer.data()), 1)?;
                run.step("4", "The event Client Reregistration is generated");
                comes(run, tester, EVENT, port)?;
            }
            Ok(())
        },
    )
    .covers(&["o14-13"])
    .asserts([RESPONSE, EVENT])
    .mutant(Mutant::mad(
        "never-heard-of-it",
        "ClientReregister of the answer is 0",
        RESPONSE,
        || shows_in_answers(method::SET, 0),
    ))
    .mutant(Mutant::mad(
        "nobody-is-told",
        "there is no event",
        EVENT,
        silent,
    ))
}

/// The event of that port is there, within the tester's patience.
fn comes(run: &mut Run, tester: &mut Tester<'_>, rule: &str, port: u8) -> Outcome {
    let raised = tester.event_comes(port, CLIENT_REREGISTER)?;
    run.check(rule, raised, || {
        format!("no Client Reregistration event of port {port} came")
    })
}

/// o14-13.2.yy.
fn in_no_other_case() -> Test {
    test(
        "O14_013_02",
        "o14-13",
        "as written, bit 4: in all other cases than o14-13.1.yy's ClientReregister is 0",
        |run, tester| {
            for port in 1..=tester.ports() {
                let (data, supported) = port_info(run, tester, port)?;
                let none = |run: &mut Run, data: &Data| {
                    run.check_eq(ONLY, "ClientReregister", shown(data), 0)
                };
                none(run, &data)?;
                run.step("2", "SubnSet(PortInfo) with ClientReregister 0");
                let answer = tester.good(port, &set(&data, 0))?;
                none(run, answer.data())?;
                run.step("3", "SubnSet(PortInfo) with ClientReregister 1");
                let answer = tester.good(port, &set(&data, 1))?;
                if !supported {
                    // Item 2 says so, too: it is 0 where it is not implemented, which bit 4 tells.
                    run.check(ONLY, shown(answer.data()) == 0, || {
                        "ClientReregister is 1 in an answer of a port whose CapabilityMask says by bit 4 that it has no such thing"
                            .to_owned()
                    })?;
                }

                run.step("4", "SubnGet(PortInfo) after that");
                for about in [0, port] {
                    let request = Smp::get(attribute::PORT_INFO).about(about.into());
                    none(run, tester.good(port, &request)?.data())?;
                }
            }

            tester.forget_events()
        },
    )
    .covers(&["o14-13"])
    .asserts([ONLY])
    .mutant(Mutant::mad(
        "announced-at-bit-25",
        "it is the published specification that the device follows",
        ONLY,
        MadFaults::default,
    ))
    .mutant(Mutant::mad(
        "always-in-a-get",
        "SubnGet(PortInfo) is answered with ClientReregister 1",
        ONLY,
        || shows_in_answers(method::GET, 1),
    ))
    .mutant(Mutant::mad(
        "asks-all-the-time",
        "every SubnSet is answered with ClientReregister 1",
        ONLY,
        || shows_in_answers(method::SET, 1),
    ))
}

/// Item 4.
fn programs_read_it() -> Test {
    test(
        "O14_013_03",
        "o14-13",
        "as written, bit 4: programs read IsClientReregistrationSupported as PortInfo has it",
        |run, tester| {
            for port in 1..=tester.ports() {
                let (_, supported) = port_info(run, tester, port)?;
                run.step("2", "ibv_query_port: port_cap_flags, bit 4");
                let announced = tester.query_port(port)?.capabilities & SUPPORTED != 0;
                run.check_eq(READ, "bit 4", announced, supported)?;
            }
            Ok(())
        },
    )
    .covers(&["o14-13"])
    .asserts([READ])
    .mutant(Mutant::mad(
        "programs-read-bit-25",
        "programs are told of it at another bit than the subnet manager",
        READ,
        || {
            announced_at_bit_4().reply(|reply| {
                if let Reply::Port(state) = reply {
                    state.capabilities = state.capabilities & !SUPPORTED | CLIENT_REG_SUP;
                }
            })
        },
    ))
}

/// o11-6.1.2.
fn raised() -> Test {
    test(
        "O11_006_1_2",
        "o11-6.1.2",
        "as written, bit 4: a request to register again raises the Client Reregistration event",
        |run, tester| {
            for port in 1..=tester.ports() {
                let (data, _) = port_info(run, tester, port)?;
                run.step(
                    "2",
                    "ibv_query_port: whether the channel interface indicates the support, by bit 4",
                );

                let capabilities = tester.query_port(port)?.capabilities;
                only_if_announced(capabilities & SUPPORTED != 0)?;
                tester.forget_events()?;
                run.step(
                    "3",
                    "The subnet manager asks: SubnSet(PortInfo) with ClientReregister 1",
                );

                tester.must_answer(run, RAISED, port, &set(&data, 1))?;
                run.step("4", "The event Client Reregistration is generated");
                comes(run, tester, RAISED, port)?;
                tester.events(SILENCE)?;
            }

            Ok(())
        },
    )
    .covers(&["o11-6.1.2"])
    .asserts([RAISED])
    .tried_on_ports(2)
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "nobody-is-told",
        "there is no event",
        RAISED,
        silent,
    ))
    .mutant(Mutant::mad(
        "the-wrong-port",
        "the event is of another port",
        RAISED,
        || {
            announced_at_bit_4().event(|event| {
                let element = 3 - event.element;
                vec![AsyncEvent { element, ..event }]
            })
        },
    ))
}

/// Answers to Gets or to Sets have ClientReregister so.
fn shows_in_answers(asked: u8, value: u128) -> MadFaults {
    let tids = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let of = tids.clone();
    announced_at_bit_4()
        .rx_edit(move |_, mad| {
            if mad.asks(asked, attribute::PORT_INFO) {
                tids.borrow_mut().push(mad.header().tid);
            }
        })
        .tx_edit(move |_, mad| {
            if mad.answers(attribute::PORT_INFO) && of.borrow().contains(&mad.header().tid) {
                REREGISTER.store(mad.data_mut(), value);
            }
        })
}

fn silent() -> MadFaults {
    announced_at_bit_4().event(|event| match event.event {
        CLIENT_REREGISTER => Vec::new(),
        _ => vec![event],
    })
}
