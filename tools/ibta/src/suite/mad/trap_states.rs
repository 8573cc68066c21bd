//! What every trap shows, and in which state of its port it may be sent (14.2.5.1, 14.3.13).

use super::case::test;
use super::provoke;
use super::traps::{is_trap, made_up, next};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester, lid_of};
use crate::run::Outcome;
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::smp::{self, attribute, node_type, state, trap};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![no_key(), active_alone()]
}

const KEY: u64 = 0x1b7a_0141_0000_0001;
const OTHER: u64 = 0x1b7a_0141_0000_0002;

fn no_key() -> Test {
    const ZERO: &str = "o14-1";

    test(
        "O14_001_01",
        "o14-1",
        "a trap shows M_Key 0, whatever the M_Key of its port is",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step("1", format!("M_Key {KEY:#x} at port {port}"));
                tester.set_m_key(port, KEY, 2)?;

                run.step("2", "a MAD with a wrong P_Key, trap 257");
                provoke::bad_p_key(tester, port)?;
                let heard = next(run, tester, port, ZERO, trap::BAD_P_KEY)?;

                run.step("3", "its M_Key is 0");
                run.check_eq(ZERO, "M_Key", smp::m_key(&heard.mad), 0)?;
                tester.repress(port, &heard)?;
                tester.configure(port)?;
            }

            Ok(())
        },
    )
    .covers(&["o14-1"])
    .asserts([ZERO])
    .mutant(Mutant::mad(
        "tells-its-key",
        "traps carry the port's M_Key",
        ZERO,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if is_trap(mad, trap::BAD_P_KEY) {
                    smp::set_m_key(&mut mad.mad, KEY);
                }
            })
        },
    ))
}

fn active_alone() -> Test {
    const SILENT: &str = "o14-3.2.1#silent";
    const SENT: &str = "o14-3.2.1#sent";

    test(
        "O14_003_02_01",
        "o14-3.2.1",
        "a port sends traps in state Active, and in no other",
        |run, tester| {
            for port in 1..=tester.ports() {
                tester.set_m_key(port, KEY, 2)?;
                run.step(
                    "1",
                    format!("port {port} leaves Active, and is trained again"),
                );
                tester.change(port, |info| info.port_state = state::DOWN)?;
                tester.wait_for_state(port, 0, &[state::INIT])?;

                for (now, after) in [(state::INIT, state::ARMED), (state::ARMED, state::ACTIVE)] {
                    run.step("2", format!("in state {now}: a SMP with a wrong M_Key"));
                    wrong_key(tester, port)?;
                    let info = tester.port_info(port, 0)?;
                    run.check_eq(SILENT, "PortState", info.port_state, now)?;

                    run.step("3", "no trap comes");
                    let heard = tester.receive_trap(port, Duration::from_millis(100))?;
                    run.check(SILENT, heard.is_none(), || format!("{heard:?}"))?;
                    tester.change(port, |info| info.port_state = after)?;
                }

                // What was not told in the states before is not told now: it is looked at anew.
                tester.hear_all_traps(port)?;
                run.step("4", "in state Active: a SMP with a wrong M_Key, trap 256");
                wrong_key(tester, port)?;
                let heard = next(run, tester, port, SENT, trap::BAD_M_KEY)?;
                tester.repress(port, &heard)?;
                tester.configure(port)?;
            }

            Ok(())
        },
    )
    .covers(&["o14-3.2.1"])
    .asserts([SILENT, SENT])
    .takes(Duration::from_secs(2))
    .mutant(Mutant::mad(
        "tells-before-it-is-asked",
        "a port in Initialize or Armed sends traps",
        SILENT,
        || {
            MadFaults::default().tx(|node, mad| {
                let port = node.port(mad.port);
                let active = port.is_none_or(|port| port.is_active());
                match mad.answers(attribute::PORT_INFO) && !active {
                    true => vec![(Duration::ZERO, mad), (Duration::ZERO, own_trap(mad.port))],
                    false => vec![(Duration::ZERO, mad)],
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "keeps-it-secret",
        "a port in Active sends no trap",
        SENT,
        || MadFaults::default().tx_drop(|_, mad| is_trap(mad, trap::BAD_M_KEY)),
    ))
}

/// An SMP with another M_Key than the port's.
fn wrong_key(tester: &mut Tester<'_>, port: u8) -> Outcome {
    let request = Smp::set(attribute::P_KEY_TABLE, [0; 64])
        .about(3)
        .key(OTHER);
    tester.send_mad(port, &request)?;
    Ok(())
}

/// Trap 144 of a port that has nothing to tell.
fn own_trap(port: u8) -> OnCable {
    let notice = smp::Notice::CapabilityChange(smp::CapabilityChange {
        lid: lid_of(port),
        ..smp::CapabilityChange::default()
    });
    made_up(port, node_type::CHANNEL_ADAPTER, &notice)
}
