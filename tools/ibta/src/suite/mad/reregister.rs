//! Client reregistration (o14-13, o11-6.1.2): the subnet manager asks the clients of a port to
//! register again.

use super::case::test;
use super::events::{SILENCE, without};
use super::mutants::{answers_to, field, shows, shows_as};
use crate::catalog::{Mutant, Test};
use crate::mad::{Answer, Smp, Tester};
use crate::protocol::{AsyncEvent, Reply};
use crate::run::{Outcome, Run, Stop};
use crate::sim::MadFaults;
use ferroce_wire::smp::{self, PortInfo, attribute, capability, method};
use std::time::Duration;

/// `IBV_EVENT_CLIENT_REREGISTER`.
pub(in crate::suite) const CLIENT_REREGISTER: u32 = 17;

pub(super) fn tests() -> Vec<Test> {
    vec![
        reregister_answer(),
        reregister_elsewhere(),
        reregister_event(),
        capability(),
    ]
}

/// `IBV_PORT_CLIENT_REG_SUP`: bit 25, as in PortInfo. The proposal of August 2004 has bit 4, which
/// the specification gave to another capability.
pub(in crate::suite) const CLIENT_REG_SUP: u32 = 1 << 25;

/// What programs are told of it.
fn capability() -> Test {
    const SAME: &str = "o14-13#port-cap-flags";

    test(
        "O14_013_03",
        "o14-13",
        "programs are told whether a port can ask its clients to register again",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step("1", format!("SubnGet(PortInfo) to port {port}"));
                let mask = tester.port_info_data(port, 0)?.capability_mask;
                run.step("2", "ibv_query_port: port_cap_flags has IBV_PORT_CLIENT_REG_SUP, bit 25, as CapabilityMask has");
                let capabilities = tester.query_port(port)?.capabilities;
                run.check_eq(SAME, "bit 25", capabilities & CLIENT_REG_SUP, mask & CLIENT_REG_SUP)?;
            }
            Ok(())
        },
    )
    .covers(&["o14-13"])
    .asserts([SAME])
    .mutant(Mutant::mad(
        "bit-4",
        "programs find it where the proposal had it",
        SAME,
        || {
            MadFaults::default().reply(|reply| {
                if let Reply::Port(state) = reply {
                    state.capabilities = state.capabilities & !CLIENT_REG_SUP | 1 << 4;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "programs-only",
        "PortInfo:CapabilityMask lacks what programs are told",
        SAME,
        || {
            shows(attribute::PORT_INFO, |_, _, data| {
                let mask = field("capability_mask");
                let without = mask.load(data) & !u128::from(CLIENT_REG_SUP);
                mask.store(data, without);
            })
        },
    ))
}

fn can_reregister(tester: &mut Tester<'_>, port: u8) -> Outcome<PortInfo> {
    let info = tester.port_info_data(port, 0)?;
    match info.capability_mask & capability::IS_CLIENT_REREGISTRATION_SUPPORTED {
        0 => Err(Stop::NotApplicable(
            "IsClientReregistrationSupported is 0".to_owned(),
        )),
        _ => Ok(info),
    }
}

fn asks(info: &PortInfo, reregister: bool) -> Smp {
    Smp::set_port_info(
        0,
        &PortInfo {
            client_reregister: reregister,
            ..*info
        },
    )
}

fn verify_shown(run: &mut Run, rule: &str, answer: &Answer, due: bool) -> Outcome {
    let seen = answer.port_info().client_reregister;
    run.check_eq(rule, "ClientReregister", seen, due)
}

fn reregister_answer() -> Test {
    const RULE: &str = "o14-13.1#response";
    const GOOD: &str = "o14-13.1#status";

    test(
        "O14_013_01",
        "o14-13",
        "SubnSet(PortInfo) with ClientReregister 1 is answered with 1",
        |run, tester| {
            for port in 1..=tester.ports() {
                let info = can_reregister(tester, port)?;
                for _ in 0..2 {
                    run.step(
                        "1",
                        format!("SubnSet(PortInfo:ClientReregister = 1) to port {port}"),
                    );
                    let answer = tester.must_have_status(run, GOOD, port, &asks(&info, true), 0)?;
                    run.step("2", "SubnGetResp(PortInfo:ClientReregister) is 1");
                    verify_shown(run, RULE, &answer, true)?;
                }
            }
            tester.forget_events()
        },
    )
    .covers(&["o14-12.2.1", "o14-13"])
    .asserts([RULE, GOOD])
    .mutant(Mutant::mad(
        "never-heard-of-it",
        "ClientReregister of the answer is 0",
        RULE,
        || shows_as("client_reregister", 0),
    ))
}

fn reregister_elsewhere() -> Test {
    const SET: &str = "o14-13.2#set";
    const GET: &str = "o14-13.2#get";
    const REFUSED: &str = "o14-13.2#refused";

    test(
        "O14_013_02",
        "o14-13",
        "in all other cases ClientReregister is 0",
        |run, tester| {
            for port in 1..=tester.ports() {
                let info = can_reregister(tester, port)?;
                tester.good(port, &asks(&info, true))?;
                run.step(
                    "1",
                    format!("SubnGet(PortInfo) to port {port} after a request to register again"),
                );

                for about in [0, port] {
                    let seen = tester.port_info(port, about)?.client_reregister;
                    run.check_eq(GET, "ClientReregister", seen, false)?;
                }

                run.step("2", "SubnSet(PortInfo:ClientReregister = 0)");
                let answer = tester.good(port, &asks(&info, false))?;
                verify_shown(run, SET, &answer, false)?;
                run.step(
                    "3",
                    "a SubnSet with ClientReregister 1 and a value that is not legal: refused, and nobody is asked",
                );

                let refused = PortInfo {
                    neighbor_mtu: 0,
                    ..info
                };
                let answer = tester.must_answer(run, REFUSED, port, &asks(&refused, true))?;
                run.check(REFUSED, answer.status() != 0, || {
                    "it was not refused".to_owned()
                })?;
                verify_shown(run, REFUSED, &answer, false)?;
            }

            tester.forget_events()
        },
    )
    .covers(&["o14-13"])
    .asserts([SET, GET, REFUSED])
    .mutant(Mutant::mad(
        "echoes",
        "the answer to a refused SubnSet is the request again, ClientReregister and all",
        REFUSED,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if mad.answers(attribute::PORT_INFO) && mad.header().status & !smp::DIRECTION != 0 {
                    field("client_reregister").store(mad.data_mut(), 1);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "sticks",
        "ClientReregister stays 1",
        GET,
        || {
            let asked = std::rc::Rc::new(std::cell::Cell::new(false));
            let shown = asked.clone();
            MadFaults::default()
                .rx_edit(move |_, mad| {
                    if mad.asks(method::SET, attribute::PORT_INFO)
                        && field("client_reregister").load(mad.data()) == 1
                    {
                        asked.set(true);
                    }
                })
                .tx_edit(move |_, mad| {
                    if mad.answers(attribute::PORT_INFO) && shown.get() {
                        field("client_reregister").store(mad.data_mut(), 1);
                    }
                })
        },
    ))
    .mutant(Mutant::mad(
        "asks-all-the-time",
        "every SubnSet is answered with ClientReregister 1",
        SET,
        || {
            answers_to(
                |_, mad| mad.asks(method::SET, attribute::PORT_INFO),
                |mad| field("client_reregister").store(mad.data_mut(), 1),
            )
        },
    ))
}

fn reregister_event() -> Test {
    const RAISED: &str = "o11-6.1.2#raised";
    const ONLY: &str = "o11-6.1.2#only-then";

    test(
        "O11_006_1_2",
        "o11-6.1.2",
        "a request to register again raises the Client Reregistration event, once, at its port",
        |run, tester| {
            for port in 1..=tester.ports() {
                let info = can_reregister(tester, port)?;
                tester.forget_events()?;
                run.step(
                    "1",
                    format!("SubnSet(PortInfo:ClientReregister = 0) to port {port}: no event"),
                );

                tester.good(port, &asks(&info, false))?;
                let events = tester.events(SILENCE)?;
                run.check(ONLY, events.is_empty(), || format!("{events:?}"))?;
                run.step("2", "one with ClientReregister 1 that is refused: no event");
                let refused = PortInfo {
                    neighbor_mtu: 0,
                    ..info
                };
                tester.must_answer(run, ONLY, port, &asks(&refused, true))?;
                let events = tester.events(SILENCE)?;
                run.check(ONLY, events.is_empty(), || format!("{events:?}"))?;
                run.step("3", "SubnSet(PortInfo:ClientReregister = 1): the event");
                tester.good(port, &asks(&info, true))?;
                let patience = tester.rig().patience();
                let mut events = tester.events(patience)?;
                events.extend(tester.events(SILENCE)?);
                let due = [AsyncEvent {
                    event: CLIENT_REREGISTER,
                    element: port.into(),
                }];
                run.check(RAISED, events == due, || {
                    format!("{events:?}, must be {due:?}")
                })?;
            }

            Ok(())
        },
    )
    .covers(&["o11-6.1.2", "o14-13"])
    .asserts([RAISED, ONLY])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "nobody-is-told",
        "there is no event",
        RAISED,
        || without(CLIENT_REREGISTER),
    ))
    .mutant(Mutant::mad(
        "told-twice",
        "there are two events",
        RAISED,
        || {
            MadFaults::default().event(|event| match event.event {
                CLIENT_REREGISTER => vec![event, event],
                _ => vec![event],
            })
        },
    ))
    .mutant(Mutant::mad(
        "the-wrong-port",
        "the event is of another port",
        RAISED,
        || {
            MadFaults::default().event(|event| {
                vec![AsyncEvent {
                    element: 3 - event.element,
                    ..event
                }]
            })
        },
    ))
    .mutant(Mutant::mad(
        "told-all-the-time",
        "every SubnSet raises the event",
        ONLY,
        || {
            MadFaults::default().rx_edit(|_, mad| {
                if mad.asks(method::SET, attribute::PORT_INFO) {
                    field("client_reregister").store(mad.data_mut(), 1);
                }
            })
        },
    ))
    .tried_on_ports(2)
}
