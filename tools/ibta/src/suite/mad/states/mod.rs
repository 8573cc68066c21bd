//! The states of a port, as a subnet manager commands and sees them (7.2), and what passes in each
//! (C7-1).

mod link;
mod packets;

use super::case::test;
use super::mutants::{field, takes};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::Outcome;
use crate::sim::MadFaults;
use ferroce_wire::smp::{PortInfo, attribute, method, state, status};
use link::{disabled, lost};
use packets::{armed, data, smps};
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
