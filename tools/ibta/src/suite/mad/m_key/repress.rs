//! SubnTrapRepress and the M_Key: who may silence a trap (C14-15, C14-16).

use super::{DUT, OTHER, checks_zero, is_smp};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{key_of, knows_key};
use crate::suite::mad::provoke;
use ferroce_wire::smp::method;
use std::time::Duration;

/// Whether a trap that has been raised is not sent again once it is repressed with this key: `due`
/// says whether to wait for its silence or for the trap itself.
fn is_silenced(tester: &mut Tester<'_>, port: u8, key: u64, due: bool) -> Outcome<Option<bool>> {
    provoke::bad_p_key(tester, port)?;
    let patience = tester.rig().patience();
    let Some(trap) = tester.receive_trap(port, patience)? else {
        return Ok(None);
    };

    tester.send_mad(port, &Smp::repress(&trap).key(key))?;

    // What was on its way already.
    while tester.receive_trap(port, Duration::ZERO)?.is_some() {}
    let within = match due {
        true => Duration::from_millis(8),
        false => patience,
    };
    let first = tester.receive_trap(port, within)?;
    let more = tester.receive_trap(port, within)?;
    Ok(Some(first.is_none() || more.is_none()))
}

/// A trap that is repressed with this key is silenced, or it is not, as it should be.
fn verify_silenced(
    run: &mut Run,
    tester: &mut Tester<'_>,
    rule: &str,
    port: u8,
    key: u64,
    due: bool,
) -> Outcome {
    let silenced = is_silenced(tester, port, key, due)?;
    run.check(rule, silenced == Some(due), || {
        let what = match silenced {
            None => "no trap comes",
            Some(true) => "the trap is not sent again",
            Some(false) => "the trap is sent on and on",
        };
        what.to_owned()
    })
}

pub(super) fn no_check_of_repress() -> Test {
    const HEARD: &str = "C14_015_TrapRepress#heard";
    const COUNTED: &str = "C14_015_TrapRepress#violations";

    test("C14_015_TrapRepress", "C14-015", "no M_Key check of SubnTrapRepress where PortInfo:M_Key is zero", |run, tester| {
        for port in 1..=tester.ports() {
            tester.set_m_key(port, 0, 2)?;
            run.step("1", "a trap, and SubnTrapRepress with an M_Key that is not zero: the trap is not sent again");
            verify_silenced(run, tester, HEARD, port, OTHER, true)?;
            run.step("2", "M_KeyViolations is 0");
            let count = tester.m_key_violations(port)?;
            run.check_eq(COUNTED, "M_KeyViolations", count, 0)?;
            tester.hear_all_traps(port)?;
        }
        Ok(())
    })
    .covers(&["C14-15"])
    .asserts([HEARD, COUNTED])
    .mutant(Mutant::mad("zero-is-a-key-too", "SubnTrapRepress with another key than zero is not heard", HEARD, || checks_zero(method::TRAP_REPRESS)))
}

pub(super) fn repress() -> Test {
    const WRONG: &str = "C14_016_TrapRepress#wrong-key";
    const COUNTED: &str = "C14_016_TrapRepress#violations";
    const RIGHT: &str = "C14_016_TrapRepress#right-key";

    test(
        "C14_016_TrapRepress",
        "C14-016",
        "M_Key checks of SubnTrapRepress",
        |run, tester| {
            tester.set_m_key(1, DUT, 2)?;
            run.step(
                "1",
                "a trap, and SubnTrapRepress with another M_Key: the trap is sent again",
            );
            verify_silenced(run, tester, WRONG, 1, OTHER, false)?;
            run.step("2", "M_KeyViolations has counted");
            let count = tester.m_key_violations(1)?;
            run.check_eq(COUNTED, "M_KeyViolations", count, 1)?;
            tester.hear_all_traps(1)?;
            run.step("3", "the same with the device's M_Key: it is not");
            verify_silenced(run, tester, RIGHT, 1, DUT, true)?;
            tester.hear_all_traps(1)?;
            tester.set_m_key(1, 0, 0)
        },
    )
    .covers(&["C14-16"])
    .asserts([WRONG, COUNTED, RIGHT])
    .mutant(Mutant::mad(
        "anybody-may-silence-it",
        "SubnTrapRepress needs no key",
        WRONG,
        || {
            MadFaults::default().rx_edit(|node, mad| {
                if is_smp(mad) && mad.header().method == method::TRAP_REPRESS {
                    let key = key_of(node, mad.port);
                    ferroce_wire::smp::set_m_key(&mut mad.mad, key);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "deaf",
        "SubnTrapRepress is not heard",
        RIGHT,
        || {
            MadFaults::default().rx_drop(|node, mad| {
                is_smp(mad)
                    && mad.header().method == method::TRAP_REPRESS
                    && knows_key(node, mad, mad.port)
            })
        },
    ))
}
