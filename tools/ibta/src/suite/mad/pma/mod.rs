//! Performance management (16.1): what must be there, what is counted, what is reset, what is
//! refused.

mod counters;
mod refusals;

use super::case::test;
use super::provoke::perf;
use crate::catalog::{Mutant, Test};
use crate::mad::{Answer, Tester};
use crate::run::{Outcome, Run};
use crate::sim::{MadFaults, OnCable};
use counters::{counts, counts_wide, port_select, resets};
use ferroce_wire::mad::Mad;
use ferroce_wire::pma::{self, ClassPortInfo, attribute};
use ferroce_wire::smp::method;
use refusals::refusals;

pub(super) fn tests() -> Vec<Test> {
    vec![
        class_port_info(),
        counts(),
        counts_wide(),
        resets(),
        port_select(),
        refusals(),
    ]
}

/// Asks by port `by`; there must be an answer with this status.
fn ask(
    run: &mut Run,
    tester: &mut Tester<'_>,
    rule: &str,
    by: u8,
    mad: &Mad,
    due: u16,
) -> Outcome<Answer> {
    let answer = tester.ask_general(by, mad)?;
    run.check(
        rule,
        answer.is_some_and(|answer| answer.status() == due),
        || {
            format!(
                "the answer's status is {:x?}, must be {due:#x}",
                answer.map(|answer| answer.status())
            )
        },
    )?;
    Ok(answer.expect("just checked"))
}

fn is_answer(mad: &OnCable, number: u16) -> bool {
    let header = mad.header();
    mad.envelope.qp == 1 && (header.method, header.attribute) == (method::GET_RESP, number)
}

/// Changes what is answered.
fn answers(number: u16, edit: impl Fn(&mut Mad) + 'static) -> MadFaults {
    MadFaults::default().tx_edit(move |_, mad| {
        if is_answer(mad, number) {
            edit(&mut mad.mad);
        }
    })
}

fn class_port_info() -> Test {
    const RULE: &str = "s16.1#class-port-info";
    const VERSIONS: &str = "s16.1#versions";

    test(
        "S16_1_01",
        "16.1",
        "ClassPortInfo is there, by every port",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step("1", format!("PerformanceGet(ClassPortInfo) to port {port}"));
                let mad = perf(tester, method::GET, attribute::CLASS_PORT_INFO);
                let answer = ask(run, tester, RULE, port, &mad, 0)?;
                run.check_eq(RULE, "method", answer.header.method, method::GET_RESP)?;
                let info = ClassPortInfo::parse(pma::data(&answer.mad));
                run.step("2", "BaseVersion and ClassVersion are 1");
                run.check_eq(
                    VERSIONS,
                    "versions",
                    (info.base_version, info.class_version),
                    (1, 1),
                )?;
            }

            Ok(())
        },
    )
    .covers(&["16.1"])
    .asserts([RULE, VERSIONS])
    .mutant(Mutant::mad(
        "nobody-there",
        "queue pair 1 is deaf",
        RULE,
        || MadFaults::default().rx_drop(|_, mad| mad.envelope.qp == 1),
    ))
    .mutant(Mutant::mad(
        "version-two",
        "ClassVersion is 2",
        VERSIONS,
        || answers(attribute::CLASS_PORT_INFO, |mad| pma::data_mut(mad)[1] = 2),
    ))
}
