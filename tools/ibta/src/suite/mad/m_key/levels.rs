//! What M_KeyProtectBits let be read and written without the M_Key (C14-16, C14-26, C14-29).

use super::{DUT, OTHER, is_smp};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run};
use crate::sim::{MadFaults, OnCable};
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{answers_without_key, field, key_of, knows_key, shows, shows_as};
use ferroce_wire::smp::{PortInfo, attribute, method};

fn protect(run: &mut Run, tester: &mut Tester<'_>, port: u8, level: u8) -> Outcome {
    run.step(
        "init",
        format!("port {port}: M_Key {DUT:#x}, M_KeyProtectBits {level}"),
    );
    tester.set_m_key(port, DUT, level)
}

/// What a device with a key may show and tell at each level.
pub(super) fn get(level: u8) -> Test {
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
            protect(run, tester, port, level)?;
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
            || shows_as("m_key_violations", 0),
        ))
    }
}

pub(super) fn set(level: u8) -> Test {
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
            protect(run, tester, port, level)?;
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
        || shows_as("vl_high_limit", 0),
    ))
}
