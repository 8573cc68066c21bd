//! Links that are switched off, and links that are lost.

use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::Outcome;
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{field, named_port, shows, takes};
use ferroce_wire::smp::{PortInfo, attribute, phys_state, state};
use std::time::Duration;

pub(super) fn disabled() -> Test {
    const OFF: &str = "S07_2_05#off";
    const ON: &str = "S07_2_05#on";

    test(
        "S07_2_05",
        "7.2",
        "a port that is switched off stays so until it is switched on, by another port",
        |run, tester| {
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

pub(super) fn lost() -> Test {
    const DOWN: &str = "S07_2_06#down";
    const DEFAULT: &str = "S07_2_06#default";
    const BACK: &str = "S07_2_06#back";

    test(
        "S07_2_06",
        "7.2",
        "a link that is lost goes to LinkDownDefaultState, and comes back to Initialize",
        |run, tester| {
            for default in [phys_state::SLEEP, phys_state::POLLING] {
                run.step(
                    "1",
                    format!(
                        "LinkDownDefaultState {default} at port 2, and its cable is pulled out"
                    ),
                );

                tester.change(2, |info| info.link_down_default_state = default)?;
                tester.rig().link(2, false)?;
                let (begun, patience) = (tester.now(), tester.rig().patience());
                let mut info = tester.port_info(1, 2)?;
                while info.port_state != state::DOWN && tester.waited_since(begun) < patience {
                    tester.sleep(Duration::from_millis(20))?;
                    info = tester.port_info(1, 2)?;
                }

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
        "never-goes-down",
        "a port that has lost its link is shown in Initialize",
        DOWN,
        || {
            shows(attribute::PORT_INFO, |_, mad, data| {
                if named_port(mad) == 2 && field("port_state").load(data) == state::DOWN.into() {
                    field("port_state").store(data, state::INIT.into());
                }
            })
        },
    ))
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
            shows(attribute::PORT_INFO, move |_, _, data| {
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
