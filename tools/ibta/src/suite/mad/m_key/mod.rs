//! C14_015 and C14_016: what is checked against the M_Key, and what follows (C14-15, C14-16,
//! C14-25, C14-26, C14-28, C14-29).

mod levels;
mod repress;

use super::case::test;
use super::mutants::{self, answers_without_key, field, knows_key, shows, shows_as, silent_to};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester, attribute_name};
use crate::run::{Outcome, Run};
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::smp::{attribute, method};
use levels::{get, set};
use repress::{no_check_of_repress, repress};
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
        || shows_as("m_key_violations", 1),
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
