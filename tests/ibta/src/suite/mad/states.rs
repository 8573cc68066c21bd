//! The states of a port, as a subnet manager commands and sees them (7.2), and what passes in each (C7-1).

use super::mutants::{field, takes};
use super::{provoke, test};
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, lid_of};
use crate::rig::Envelope;
use crate::run::Outcome;
use crate::sim::{MadFaults, OnCable};
use ferroce_fabric::sma::Node;
use ferroce_wire::pma;
use ferroce_wire::smp::{PortInfo, attribute, method, phys_state, state, status};
use std::time::Duration;

const INVALID: &str = "v1c13-024#07";

pub(super) fn tests() -> Vec<Test> {
    vec![
        way_up(),
        down_and_up(),
        smps(),
        data(),
        armed(),
        disabled(),
        lost(),
    ]
}

/// Commands a state of a port by itself; the status of the answer.
fn command(tester: &mut Tester<'_>, port: u8, wanted: u8) -> Outcome<Option<u16>> {
    let info = tester.port_info_data(port, 0)?;
    let set = Smp::set_port_info(
        0,
        &PortInfo {
            port_state: wanted,
            ..info
        },
    );
    Ok(tester.ask(port, &set)?.map(|answer| answer.status()))
}

/// Takes the link down, so that the port is in Initialize again.
fn to_init(tester: &mut Tester<'_>, port: u8) -> Outcome<PortInfo> {
    command(tester, port, state::DOWN)?;
    tester.wait_for_state(port, 0, &[state::INIT])
}

/// A MAD to queue pair 1; whether it is answered.
fn is_heard(tester: &mut Tester<'_>, port: u8) -> Outcome<bool> {
    let mad = provoke::perf(tester, method::GET, pma::attribute::CLASS_PORT_INFO);
    let sent = tester.send_as_is(port, Envelope::gmp(SM_LID, lid_of(port)), &mad)?;
    let timeout = tester.response_timeout(port);
    Ok(tester.answer_until(port, &sent, timeout)?.is_some())
}

fn way_up() -> Test {
    const STATE: &str = "S07_2_01#state";
    test(
        "S07_2_01",
        "7.2",
        "Initialize, Armed, Active: in this order, and no step left out",
        |run, tester| {
            to_init(tester, 1)?;
            for (now, refused, next) in [
                (state::INIT, &[state::ACTIVE, state::INIT][..], state::ARMED),
                (state::ARMED, &[state::INIT][..], state::ACTIVE),
                (
                    state::ACTIVE,
                    &[state::INIT, state::ARMED][..],
                    state::ACTIVE,
                ),
            ] {
                for wanted in refused {
                    run.step(
                        "1",
                        format!("in state {now} SubnSet(PortInfo:PortState = {wanted}) is refused"),
                    );
                    let status = command(tester, 1, *wanted)?;
                    run.check_eq(
                        INVALID,
                        "MADHeader:Status",
                        status,
                        Some(status::INVALID_VALUE),
                    )?;
                    let seen = tester.port_info(1, 0)?.port_state;
                    run.check_eq(STATE, "PortState", seen, now)?;
                }
                if next != now {
                    run.step(
                        "2",
                        format!("SubnSet(PortInfo:PortState = {next}) is carried out"),
                    );
                    let status = command(tester, 1, next)?;
                    run.check_eq(STATE, "MADHeader:Status", status, Some(0))?;
                    let seen = tester.port_info(1, 0)?.port_state;
                    run.check_eq(STATE, "PortState", seen, next)?;
                }
            }
            tester.configure(1)
        },
    )
    .covers(&["7.2", "C13-24"])
    .asserts([STATE, INVALID])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "no-step-is-too-great",
        "a command that is not legal is passed over with status 0",
        INVALID,
        || {
            takes(attribute::PORT_INFO, |node, mad, data| {
                let wanted = field("port_state").load(data);
                let now = node.port(mad.port).map_or(0, |port| port.info().port_state);
                if wanted > 1 && wanted != u128::from(now) + 1 {
                    field("port_state").store(data, 0);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "never-armed",
        "a port that is armed says that it is initialized",
        STATE,
        || {
            super::mutants::shows(attribute::PORT_INFO, |_, _, data| {
                if field("port_state").load(data) == state::ARMED.into() {
                    field("port_state").store(data, state::INIT.into());
                }
            })
        },
    ))
}

fn down_and_up() -> Test {
    const ANSWER: &str = "S07_2_02#answer";
    const INIT: &str = "S07_2_02#init";
    const KEPT: &str = "S07_2_02#kept";
    test(
        "S07_2_02",
        "7.2",
        "a port that is commanded down answers first, trains again, and keeps what it was given",
        |run, tester| {
            let before = tester.port_info_data(1, 0)?;
            run.step("1", "SubnSet(PortInfo:PortState = Down)");
            let status = command(tester, 1, state::DOWN)?;
            run.check_eq(ANSWER, "MADHeader:Status", status, Some(0))?;
            run.step("2", "the port comes back, to Initialize");
            let info = tester.wait_for_state(1, 0, &[state::INIT, state::ARMED, state::ACTIVE])?;
            run.check_eq(INIT, "PortState", info.port_state, state::INIT)?;
            run.step(
                "3",
                "LID and the way to the subnet manager are as they were",
            );
            let kept = |info: &PortInfo| {
                (
                    info.lid,
                    info.lmc,
                    info.master_sm_lid,
                    info.subnet_timeout,
                    info.gid_prefix,
                )
            };
            run.check_eq(KEPT, "what it was given", kept(&info), kept(&before))?;
            tester.configure(1)
        },
    )
    .covers(&["7.2"])
    .asserts([ANSWER, INIT, KEPT])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "leaves-without-a-word",
        "the command to go down is not answered",
        ANSWER,
        || {
            let going = std::rc::Rc::new(std::cell::Cell::new(0));
            let silenced = going.clone();
            MadFaults::default()
                .rx_edit(move |_, mad| {
                    if mad.asks(method::SET, attribute::PORT_INFO)
                        && field("port_state").load(mad.data()) == state::DOWN.into()
                    {
                        going.set(mad.header().tid);
                    }
                })
                .tx_drop(move |_, mad| mad.header().tid == silenced.get())
        },
    ))
    .mutant(Mutant::mad(
        "forgets-its-subnet",
        "a port that has trained again has another GidPrefix",
        KEPT,
        || {
            let was_active = std::cell::Cell::new(false);
            super::mutants::shows(attribute::PORT_INFO, move |_, _, data| {
                let now = field("port_state").load(data);
                if now == state::ACTIVE.into() {
                    was_active.set(true);
                } else if now == state::INIT.into() && was_active.get() {
                    field("gid_prefix").store(data, 0xfe80 << 48 | 1);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "stays-up",
        "the port does not go down",
        INIT,
        || {
            takes(attribute::PORT_INFO, |_, _, data| {
                if field("port_state").load(data) == state::DOWN.into() {
                    field("port_state").store(data, 0);
                }
            })
        },
    ))
}

/// A mutant that hears nothing of one queue pair in one state.
fn deaf(qp: u32, in_state: u8) -> impl Fn() -> MadFaults {
    move || {
        MadFaults::default().rx_drop(move |node: &Node, mad: &OnCable| {
            let is_get = mad.header().method == method::GET
                && mad.header().attribute == attribute::NODE_INFO;
            let now = node.port(mad.port).map_or(0, |port| port.info().port_state);
            mad.envelope.qp == qp && (qp == 1 || is_get) && now == in_state
        })
    }
}

fn smps() -> Test {
    const INIT: &str = "v1c07-001#07";
    const ARMED: &str = "v1c07-001#14";
    test(
        "C07_001_01",
        "C07-001",
        "SMPs are answered in Initialize and in Armed",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step(
                    "1",
                    format!(
                        "port {port} in Initialize: SubnGet(NodeInfo), by directed route and by LID"
                    ),
                );
                to_init(tester, port)?;
                let get = Smp::get(attribute::NODE_INFO);
                for request in [get, get.to_lid(lid_of(port))] {
                    tester.must_have_status(run, INIT, port, &request, 0)?;
                }
                run.step("2", "the same in Armed");
                command(tester, port, state::ARMED)?;
                for request in [get, get.to_lid(lid_of(port))] {
                    tester.must_have_status(run, ARMED, port, &request, 0)?;
                }
                let seen = tester.port_info(port, 0)?.port_state;
                run.check_eq(ARMED, "PortState after SMPs", seen, state::ARMED)?;
                tester.configure(port)?;
            }
            Ok(())
        },
    )
    .covers(&["C7-1"])
    .asserts([INIT, ARMED])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "deaf-in-initialize",
        "SMPs are not heard in Initialize",
        INIT,
        deaf(0, state::INIT),
    ))
    .mutant(Mutant::mad(
        "deaf-in-armed",
        "SMPs are not heard in Armed",
        ARMED,
        deaf(0, state::ARMED),
    ))
}

fn data() -> Test {
    const DROPPED: &str = "S07_2_03#initialize";
    const TAKEN: &str = "S07_2_03#active";
    test(
        "S07_2_03",
        "7.2",
        "data packets are dropped in Initialize and taken in Active",
        |run, tester| {
            run.step("1", "in Initialize a MAD to queue pair 1 is not answered");
            to_init(tester, 1)?;
            let heard = is_heard(tester, 1)?;
            run.check(DROPPED, !heard, || "it is answered".to_owned())?;
            run.step("2", "in Active it is");
            tester.configure(1)?;
            let heard = is_heard(tester, 1)?;
            run.check(TAKEN, heard, || "it is not answered".to_owned())
        },
    )
    .covers(&["7.2"])
    .asserts([DROPPED, TAKEN])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "deaf-when-active",
        "data packets are dropped in Active",
        TAKEN,
        deaf(1, state::ACTIVE),
    ))
    .mutant(Mutant::mad(
        "all-ears",
        "the first data packet takes a port out of Initialize",
        DROPPED,
        || {
            // By commands that nobody has given.
            MadFaults::default()
                .rx(|node, mad| {
                    let info = node
                        .port(mad.port)
                        .map(|port| *port.info())
                        .unwrap_or_default();
                    if mad.envelope.qp != 1 || info.port_state != state::INIT {
                        return vec![mad];
                    }
                    let steps = [state::ARMED, state::ACTIVE].map(|port_state| {
                        let info = PortInfo {
                            port_state,
                            port_physical_state: 0,
                            ..info
                        };
                        OnCable {
                            envelope: Envelope::directed(),
                            mad: Smp::set_port_info(0, &info).emit(mad.port, info.m_key, 7),
                            port: mad.port,
                        }
                    });
                    steps.into_iter().chain([mad]).collect()
                })
                .tx_drop(|_, mad| mad.header().tid == 7)
        },
    ))
}

fn armed() -> Test {
    const ACTIVE: &str = "S07_2_04#active";
    const ANSWERED: &str = "S07_2_04#answered";
    test(
        "S07_2_04",
        "7.2",
        "the first data packet takes an armed port to Active",
        |run, tester| {
            to_init(tester, 1)?;
            command(tester, 1, state::ARMED)?;
            run.step("1", "in Armed a MAD to queue pair 1 is answered");
            let heard = is_heard(tester, 1)?;
            run.check(ANSWERED, heard, || "it is not answered".to_owned())?;
            run.step("2", "PortState is Active");
            let seen = tester.port_info(1, 0)?.port_state;
            run.check_eq(ACTIVE, "PortState", seen, state::ACTIVE)?;
            tester.configure(1)
        },
    )
    .covers(&["7.2"])
    .asserts([ACTIVE, ANSWERED])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "waits-for-the-command",
        "data packets are dropped in Armed",
        ANSWERED,
        deaf(1, state::ARMED),
    ))
    .mutant(Mutant::mad(
        "says-armed",
        "the port says Armed until it is commanded",
        ACTIVE,
        || {
            super::mutants::shows(attribute::PORT_INFO, |_, _, data| {
                if field("port_state").load(data) == state::ACTIVE.into() {
                    field("port_state").store(data, state::ARMED.into());
                }
            })
            // Else the tester would command Active again, which is refused.
            .rx_edit(|_, mad| {
                if mad.asks(method::SET, attribute::PORT_INFO)
                    && field("port_state").load(mad.data()) == state::ACTIVE.into()
                {
                    let node_state = field("port_state");
                    node_state.store(mad.data_mut(), 0);
                }
            })
        },
    ))
}

fn disabled() -> Test {
    const OFF: &str = "S07_2_05#off";
    const ON: &str = "S07_2_05#on";
    test(
        "S07_2_05",
        "7.2",
        "a port that is switched off stays so until it is switched on, by another port",
        |run, tester| {
            tester.check_ports(2)?;
            let command = |tester: &mut Tester<'_>, physical: u8| -> Outcome<Option<u16>> {
                let info = tester.port_info_data(1, 2)?;
                let set = Smp::set_port_info(
                    2,
                    &PortInfo {
                        port_physical_state: physical,
                        ..info
                    },
                );
                Ok(tester.ask(1, &set)?.map(|answer| answer.status()))
            };
            run.step(
                "1",
                "SubnSet(PortInfo:PortPhysicalState = Disabled) of port 2, by port 1",
            );
            let status = command(tester, phys_state::DISABLED)?;
            run.check_eq(OFF, "MADHeader:Status", status, Some(0))?;
            run.step("2", "it is down, and stays so");
            for _ in 0..2 {
                let info = tester.port_info(1, 2)?;
                run.check_eq(
                    OFF,
                    "PortState and PortPhysicalState",
                    (info.port_state, info.port_physical_state),
                    (state::DOWN, phys_state::DISABLED),
                )?;
                tester.sleep(Duration::from_millis(400))?;
            }
            run.step(
                "3",
                "SubnSet(PortInfo:PortPhysicalState = Polling): it comes back",
            );
            let status = command(tester, phys_state::POLLING)?;
            run.check_eq(ON, "MADHeader:Status", status, Some(0))?;
            let info = tester.wait_for_state(1, 2, &[state::INIT])?;
            run.check_eq(
                ON,
                "PortPhysicalState",
                info.port_physical_state,
                phys_state::LINK_UP,
            )?;
            tester.configure(2)
        },
    )
    .covers(&["7.2"])
    .asserts([OFF, ON])
    .on_ports(2)
    .takes(Duration::from_secs(2))
    .mutant(Mutant::mad(
        "comes-back-by-itself",
        "a port that is switched off trains again",
        OFF,
        || {
            takes(attribute::PORT_INFO, |_, _, data| {
                if field("port_physical_state").load(data) == phys_state::DISABLED.into() {
                    field("port_physical_state").store(data, phys_state::POLLING.into());
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "cannot-be-switched-on",
        "the command to poll is refused",
        ON,
        || {
            takes(attribute::PORT_INFO, |_, _, data| {
                if field("port_physical_state").load(data) == phys_state::POLLING.into() {
                    field("port_physical_state").store(data, 9);
                }
            })
        },
    ))
}

fn lost() -> Test {
    const DOWN: &str = "S07_2_06#down";
    const DEFAULT: &str = "S07_2_06#default";
    const BACK: &str = "S07_2_06#back";
    test(
        "S07_2_06",
        "7.2",
        "a link that is lost goes to LinkDownDefaultState, and comes back to Initialize",
        |run, tester| {
            tester.check_ports(2)?;
            for default in [phys_state::SLEEP, phys_state::POLLING] {
                run.step(
                    "1",
                    format!(
                        "LinkDownDefaultState {default} at port 2, and its cable is pulled out"
                    ),
                );
                tester.change(2, |info| info.link_down_default_state = default)?;
                tester.rig().link(2, false)?;
                let info = tester.wait_for_state(1, 2, &[state::DOWN])?;
                run.check_eq(DOWN, "PortState", info.port_state, state::DOWN)?;
                run.check_eq(
                    DEFAULT,
                    "PortPhysicalState",
                    info.port_physical_state,
                    default,
                )?;
                run.step("2", "it is plugged in again");
                tester.rig().link(2, true)?;
                let info =
                    tester.wait_for_state(1, 2, &[state::INIT, state::ARMED, state::ACTIVE])?;
                run.check_eq(BACK, "PortState", info.port_state, state::INIT)?;
                tester.configure(2)?;
            }
            Ok(())
        },
    )
    .covers(&["7.2"])
    .asserts([DOWN, DEFAULT, BACK])
    .on_ports(2)
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "always-polls",
        "the port polls whatever LinkDownDefaultState says",
        DEFAULT,
        || {
            takes(attribute::PORT_INFO, |_, _, data| {
                field("link_down_default_state").store(data, phys_state::POLLING.into())
            })
        },
    ))
    .mutant(Mutant::mad(
        "active-at-once",
        "a link that comes back is active",
        BACK,
        || {
            let seen_down = std::cell::Cell::new(false);
            super::mutants::shows(attribute::PORT_INFO, move |_, _, data| {
                let now = field("port_state").load(data);
                if now == state::DOWN.into() {
                    seen_down.set(true);
                } else if now == state::INIT.into() && seen_down.get() {
                    field("port_state").store(data, state::ACTIVE.into());
                }
            })
        },
    ))
}
