//! C14_015 and C14_016: what is checked against the M_Key, and what follows (C14-15, C14-16, C14-25, C14-26, C14-28, C14-29).

use super::mutants::{self, answers_without_key, field, key_of, knows_key, shows, silent_to};
use super::{provoke, test};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester, attribute_name};
use crate::run::{Outcome, Run};
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::smp::{PortInfo, attribute, method};
use std::time::Duration;

/// The device's M_Key.
const DUT: u64 = 0x1b7a_0016_0000_0001;
/// Another.
const OTHER: u64 = 0x1b7a_0016_0000_0002;

pub(super) fn tests() -> Vec<Test> {
    let mut tests = vec![
        no_check("C14_015_Get", method::GET, "v1c14-015#01", "v1c14-028#01"),
        no_check("C14_015_Set", method::SET, "v1c14-015#02", "v1c14-028#02"),
        no_check_of_repress(),
        every_attribute(),
        repress(),
        counter(),
    ];
    for level in 0..=3 {
        tests.push(get(level));
        tests.push(set(level));
    }
    tests
}

fn is_smp(mad: &OnCable) -> bool {
    mad.envelope.qp == 0
}

/// A device that looks at the key although it has none itself.
fn checks_zero(asked: u8) -> MadFaults {
    silent_to(move |mad| {
        mad.header().method == asked && ferroce_wire::smp::m_key(&mad.mad) == OTHER
    })
}

/// M_Key 0: everybody may.
fn no_check(id: &'static str, asked: u8, free: &'static str, response: &'static str) -> Test {
    const COUNTED: &str = "C14_015#violations";
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            for level in [2, 3] {
                run.step(
                    "init",
                    format!("port {port}: M_Key 0, M_KeyProtectBits {level}"),
                );
                tester.set_m_key(port, 0, level)?;
                run.step(
                    "1",
                    format!("method {asked:#x} with an M_Key that is not zero"),
                );
                let request = match asked {
                    method::GET => Smp::get(attribute::NODE_INFO),
                    _ => Smp::set_port_info(0, &tester.port_info_data(port, 0)?),
                };
                let answer = tester.must_answer(run, free, port, &request.key(OTHER))?;
                run.check_eq(response, "MADHeader:Status", answer.status(), 0)?;
                run.step("2", "M_KeyViolations is 0");
                let count = tester.m_key_violations(port)?;
                run.check_eq(COUNTED, "M_KeyViolations", count, 0)?;
            }
            tester.set_m_key(port, 0, 0)?;
        }
        Ok(())
    };
    test(
        id,
        "C14-015",
        "no M_Key check where PortInfo:M_Key is zero",
        body,
    )
    .covers(&["C14-15", "C14-28"])
    .asserts([free, response, COUNTED])
    .mutant(Mutant::mad(
        "zero-is-a-key-too",
        "requests with another key than zero are not answered",
        free,
        move || checks_zero(asked),
    ))
    .mutant(Mutant::mad(
        "counts-all-the-same",
        "M_KeyViolations counts where nothing is checked",
        COUNTED,
        || {
            shows(attribute::PORT_INFO, |_, _, data| {
                field("m_key_violations").store(data, 1)
            })
        },
    ))
}

/// Whether a trap that has been raised is not sent again once it is repressed with this key.
fn is_silenced(tester: &mut Tester<'_>, port: u8, key: u64) -> Outcome<Option<bool>> {
    provoke::bad_p_key(tester, port)?;
    let patience = tester.rig().patience();
    let Some(trap) = tester.receive_trap(port, patience)? else {
        return Ok(None);
    };
    let request = Smp {
        data: *ferroce_wire::smp::data(&trap.mad),
        tid: Some(trap.header.tid),
        ..Smp::new(method::TRAP_REPRESS, attribute::NOTICE)
    };
    tester.send_mad(port, &request.key(key))?;
    // What was on its way already.
    while tester.receive_trap(port, Duration::ZERO)?.is_some() {}
    let first = tester.receive_trap(port, Duration::from_millis(8))?;
    let more = tester.receive_trap(port, Duration::from_millis(8))?;
    Ok(Some(first.is_none() || more.is_none()))
}

fn no_check_of_repress() -> Test {
    const HEARD: &str = "C14_015_TrapRepress#heard";
    const COUNTED: &str = "C14_015_TrapRepress#violations";
    test("C14_015_TrapRepress", "C14-015", "no M_Key check of SubnTrapRepress where PortInfo:M_Key is zero", |run, tester| {
        for port in 1..=tester.ports() {
            tester.set_m_key(port, 0, 2)?;
            run.step("1", "a trap, and SubnTrapRepress with an M_Key that is not zero: the trap is not sent again");
            let silenced = is_silenced(tester, port, OTHER)?;
            run.check(HEARD, silenced == Some(true), || match silenced {
                None => "no trap comes".to_owned(),
                _ => "the trap is sent on and on".to_owned(),
            })?;
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

/// What a device with a key may show and tell at each level.
fn get(level: u8) -> Test {
    let id = format!("C14_016_Get_{level}");
    let (assertions, free): (&[&'static str], bool) = match level {
        0 => (&["v1c14-016#01.01", "v1c14-029#01.01"], true),
        1 => (&["v1c14-016#02.01", "v1c14-029#01.01"], true),
        2 => (&["v1c14-016#03.01", "v1c14-029#01.02"], false),
        _ => (&["v1c14-016#04.01", "v1c14-029#01.02"], false),
    };
    let (rule, answer) = (assertions[0], assertions[1]);
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            run.step(
                "init",
                format!("port {port}: M_Key {DUT:#x}, M_KeyProtectBits {level}"),
            );
            tester.set_m_key(port, DUT, level)?;
            run.step(
                "1",
                "SubnGet(PortInfo) with this M_Key: answered, and the M_Key is shown",
            );
            let own = Smp::get(attribute::PORT_INFO);
            let shown = tester
                .must_have_status(run, rule, port, &own, 0)?
                .port_info();
            run.check_eq(rule, "M_Key shown to who has it", shown.m_key, DUT)?;
            run.step("2", "SubnGet(PortInfo) with other M_Keys");
            for key in [OTHER, 0] {
                let request = own.key(key);
                if !free {
                    tester.must_be_silent(run, answer, port, &request)?;
                    continue;
                }
                let shown = tester
                    .must_have_status(run, answer, port, &request, 0)?
                    .port_info();
                let due = if level == 0 { DUT } else { 0 };
                run.check_eq(rule, "M_Key shown to others", shown.m_key, due)?;
            }
            run.step(
                "3",
                "M_KeyViolations counts what was not answered, and nothing else",
            );
            let count = tester.m_key_violations(port)?;
            run.check_eq(rule, "M_KeyViolations", count, if free { 0 } else { 2 })?;
            tester.set_m_key(port, 0, 0)?;
        }
        Ok(())
    };
    let test = test(
        id,
        "C14-016",
        format!("M_Key checks of SubnGet at M_KeyProtectBits {level}"),
        body,
    )
    .covers(&["C14-16", "C14-29"])
    .asserts(assertions.iter().copied());
    let is_get = |mad: &OnCable| is_smp(mad) && mad.header().method == method::GET;
    if free {
        test.mutant(Mutant::mad(
            "asks-for-the-key",
            "reading needs the key",
            answer,
            move || {
                MadFaults::default()
                    .rx_drop(move |node, mad| is_get(mad) && !knows_key(node, mad, mad.port))
            },
        ))
        .mutant(Mutant::mad(
            "shows-the-wrong-thing",
            "the key is hidden from others at level 0, and shown at level 1",
            rule,
            move || {
                shows(attribute::PORT_INFO, move |node, mad, data| {
                    let hide = field("m_key").load(data) != 0
                        && node
                            .port(mad.port)
                            .is_some_and(|port| port.info().m_key_protect_bits == 0);
                    let key = if hide { 0 } else { key_of(node, mad.port) };
                    field("m_key").store(data, key.into());
                })
            },
        ))
    } else {
        test.mutant(Mutant::mad(
            "reading-is-free",
            "reading needs no key",
            answer,
            move || {
                answers_without_key(move |node, mad| is_get(mad) && !knows_key(node, mad, mad.port))
            },
        ))
        .mutant(Mutant::mad(
            "does-not-count",
            "M_KeyViolations stays 0",
            rule,
            || {
                shows(attribute::PORT_INFO, |_, _, data| {
                    field("m_key_violations").store(data, 0)
                })
            },
        ))
    }
}

fn set(level: u8) -> Test {
    let id = format!("C14_016_Set_{level}");
    let rule = [
        "v1c14-016#01.02",
        "v1c14-016#02.02",
        "v1c14-016#03.02",
        "v1c14-016#04.02",
    ][usize::from(level)];
    const SHOWN: &str = "v1c14-026#01";
    const ANSWERED: &str = "v1c14-029#02.01";
    const SILENT: &str = "v1c14-029#02.02";
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            run.step(
                "init",
                format!("port {port}: M_Key {DUT:#x}, M_KeyProtectBits {level}"),
            );
            tester.set_m_key(port, DUT, level)?;
            run.step("1", "SubnGet(PortInfo)");
            let before = tester.port_info_data(port, 0)?;
            run.step("3", "another value of a read-write component");
            let wanted = PortInfo {
                vl_high_limit: before.vl_high_limit ^ 0x55,
                ..before
            };
            run.step("4", "SubnSet(PortInfo) with the device's M_Key");
            let answer =
                tester.must_have_status(run, ANSWERED, port, &Smp::set_port_info(0, &wanted), 0)?;
            run.step("6", "the answer shows the new value");
            run.check_eq(
                SHOWN,
                "VLHighLimit of the answer",
                answer.port_info().vl_high_limit,
                wanted.vl_high_limit,
            )?;
            run.step("7", "SubnSet(PortInfo) with other M_Keys is not answered");
            for key in [OTHER, 0] {
                tester.must_be_silent(
                    run,
                    SILENT,
                    port,
                    &Smp::set_port_info(0, &before).key(key),
                )?;
            }
            run.step("8", "nothing has changed, and M_KeyViolations has counted");
            let now = tester.port_info(port, 0)?;
            run.check_eq(rule, "VLHighLimit", now.vl_high_limit, wanted.vl_high_limit)?;
            run.check_eq(rule, "M_KeyViolations", now.m_key_violations, 2)?;
            tester.set_m_key(port, 0, 0)?;
        }
        Ok(())
    };
    let wrong_set = |node: &ferroce_fabric::sma::Node, mad: &OnCable| {
        mad.asks(method::SET, attribute::PORT_INFO) && !knows_key(node, mad, mad.port)
    };
    test(
        id,
        "C14-016",
        format!("M_Key checks of SubnSet at M_KeyProtectBits {level}"),
        body,
    )
    .covers(&["C14-16", "C14-26", "C14-29"])
    .asserts([rule, SHOWN, ANSWERED, SILENT])
    .mutant(Mutant::mad(
        "writing-is-free",
        "writing needs no key",
        SILENT,
        move || answers_without_key(wrong_set),
    ))
    .mutant(Mutant::mad(
        "writes-in-silence",
        "a SubnSet without the key is carried out and not answered",
        rule,
        move || {
            let silenced = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let tids = silenced.clone();
            MadFaults::default()
                .rx_edit(move |node, mad| {
                    if wrong_set(node, mad) {
                        tids.borrow_mut().push(mad.header().tid);
                        ferroce_wire::smp::set_m_key(&mut mad.mad, key_of(node, mad.port));
                    }
                })
                .tx_drop(move |_, mad| silenced.borrow().contains(&mad.header().tid))
        },
    ))
    .mutant(Mutant::mad(
        "shows-the-old-value",
        "the answer to a SubnSet shows what there was before",
        SHOWN,
        || {
            shows(attribute::PORT_INFO, |_, _, data| {
                field("vl_high_limit").store(data, 0)
            })
        },
    ))
}

/// Not only PortInfo is protected.
fn every_attribute() -> Test {
    const SILENT: &str = "v1c14-029#01.02";
    const COUNTED: &str = "C14_016_attributes#violations";
    let attributes = [
        attribute::NODE_DESCRIPTION,
        attribute::NODE_INFO,
        attribute::GUID_INFO,
        attribute::P_KEY_TABLE,
        attribute::SL_TO_VL,
        attribute::VL_ARBITRATION,
        attribute::VENDOR_DIAG,
        attribute::LED_INFO,
    ];
    test(
        "C14_016_attributes",
        "C14-016",
        "the M_Key protects every attribute",
        move |run, tester| {
            tester.set_m_key(1, DUT, 2)?;
            for (at, attribute) in attributes.into_iter().enumerate() {
                run.step(
                    at + 1,
                    format!("SubnGet({}) with another M_Key", attribute_name(attribute)),
                );
                tester.must_be_silent(run, SILENT, 1, &Smp::get(attribute).key(OTHER))?;
                let count = tester.m_key_violations(1)?;
                run.check_eq(COUNTED, "M_KeyViolations", usize::from(count), at + 1)?;
            }
            tester.set_m_key(1, 0, 0)
        },
    )
    .covers(&["C14-16", "C14-29"])
    .asserts([SILENT, COUNTED])
    .takes(Duration::from_secs(3))
    .mutant(Mutant::mad(
        "p-keys-are-public",
        "P_KeyTable can be read without the key",
        SILENT,
        || {
            answers_without_key(|node, mad| {
                mad.asks(method::GET, attribute::P_KEY_TABLE) && !knows_key(node, mad, mad.port)
            })
        },
    ))
    .mutant(Mutant::mad(
        "lamps-do-not-count",
        "LedInfo with another key is dropped, and not counted",
        COUNTED,
        || MadFaults::default().rx_drop(|_, mad| mad.asks(method::GET, attribute::LED_INFO)),
    ))
}

fn repress() -> Test {
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
            let silenced = is_silenced(tester, 1, OTHER)?;
            run.check(WRONG, silenced == Some(false), || match silenced {
                None => "no trap comes".to_owned(),
                _ => "the trap is not sent again".to_owned(),
            })?;
            run.step("2", "M_KeyViolations has counted");
            let count = tester.m_key_violations(1)?;
            run.check_eq(COUNTED, "M_KeyViolations", count, 1)?;
            tester.hear_all_traps(1)?;
            run.step("3", "the same with the device's M_Key: it is not");
            let silenced = is_silenced(tester, 1, DUT)?;
            run.check(RIGHT, silenced == Some(true), || match silenced {
                None => "no trap comes".to_owned(),
                _ => "the trap is sent on and on".to_owned(),
            })?;
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

fn counter() -> Test {
    const STOPS: &str = "C14_016_counter#stops";
    const RESET: &str = "C14_016_counter#reset";
    test(
        "C14_016_counter",
        "C14-016",
        "M_KeyViolations stops at its maximum, and only zero resets it",
        |run, tester| {
            tester.set_m_key(1, DUT, 2)?;
            run.step("1", "65,540 requests with another M_Key");
            for batch in 0..4_u32 {
                for request in 0..16_385_u32 {
                    tester.send_mad(1, &Smp::get(attribute::NODE_INFO).key(OTHER))?;
                    // So that nothing overflows between here and the device.
                    if request % 64 == 63 {
                        tester.data(1, attribute::NODE_INFO, 0)?;
                    }
                }
                run.note(format!("{} are sent", (batch + 1) * 16_385));
            }
            let count = tester.m_key_violations(1)?;
            run.check_eq(STOPS, "M_KeyViolations", count, 0xffff)?;
            run.step("2", "SubnSet(PortInfo) with M_KeyViolations 5 and 0");
            for (written, due) in [(5, 0xffff), (0, 0)] {
                tester.change(1, |info| info.m_key_violations = written)?;
                let count = tester.m_key_violations(1)?;
                run.check_eq(RESET, "M_KeyViolations", count, due)?;
            }
            tester.set_m_key(1, 0, 0)
        },
    )
    .covers(&["C14-24.1.1"])
    .asserts([STOPS, RESET])
    .takes(Duration::from_secs(10))
    .mutant(Mutant::mad(
        "starts-over",
        "M_KeyViolations starts over at 0",
        STOPS,
        || {
            shows(attribute::PORT_INFO, |_, _, data| {
                let field = field("m_key_violations");
                if field.load(data) == 0xffff {
                    field.store(data, 4);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "any-value-resets",
        "writing any value resets M_KeyViolations",
        RESET,
        || {
            mutants::takes(attribute::PORT_INFO, |_, _, data| {
                field("m_key_violations").store(data, 0)
            })
        },
    ))
}
