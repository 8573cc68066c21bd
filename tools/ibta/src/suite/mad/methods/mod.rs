//! C14_003 and its relatives: which methods go with which attributes, what is answered, and how
//! (C13-24, C14-3, C14-30, C14-31).

mod answers;
mod unknown;

use super::case::test;
use super::mutants::{answers_to, set_status, status_of};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester, attribute_name};
use crate::run::{Outcome, Run};
use crate::sim::{MadFaults, OnCable};
use answers::{header, not_answered, responses, version};
use ferroce_fabric::sma::Node;
use ferroce_wire::smp::{attribute, method, status};
use unknown::{no_agent, other_classes, unknown_attributes, unknown_methods};

const UNSUPPORTED: &str = "v1c14-031#01";
const READ_ONLY: &str = "v1c14-027#01";
const RESPONSE: &str = "v1c14-030#01";

pub(super) fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = [
        attribute::NODE_DESCRIPTION,
        attribute::NODE_INFO,
        attribute::VENDOR_DIAG,
    ]
    .map(read_only)
    .into();

    tests.extend(
        [
            attribute::GUID_INFO,
            attribute::PORT_INFO,
            attribute::P_KEY_TABLE,
            attribute::LED_INFO,
        ]
        .map(read_write),
    );

    tests.extend([
        unknown_attributes(),
        unknown_methods(),
        responses(),
        not_answered(),
        header(),
        other_classes(),
        no_agent(),
    ]);

    tests.push(version(
        "C13_024_base",
        "BaseVersion",
        |request, version| request.base_version = version,
    ));

    tests.push(version(
        "C13_024_class",
        "ClassVersion",
        |request, version| request.class_version = version,
    ));

    tests
}

fn read_only(number: u16) -> Test {
    let name = attribute_name(number);
    let id = format!("C14_003_{name}");
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        run.step("1", "SubnGet");
        let before = tester.data(1, number, 0)?;
        run.step(
            "2",
            "SubnSet with all bits inverted: there is no such method for it",
        );
        let set = Smp::set(number, before.map(|byte| !byte));
        tester.must_have_status(run, UNSUPPORTED, 1, &set, status::UNSUPPORTED_ATTRIBUTE)?;
        run.step("3", "SubnGet: the same as before");
        let after = tester.data(1, number, 0)?;
        run.check(READ_ONLY, after == before, || {
            "a refused SubnSet has changed it".to_owned()
        })
    };

    test(id, "C14-003", format!("{name} has no SubnSet"), body)
        .covers(&["C14-3", "C14-27", "C14-31"])
        .asserts([UNSUPPORTED, READ_ONLY])
        .mutant(Mutant::mad(
            "takes-it",
            "SubnSet has status 0",
            UNSUPPORTED,
            move || status_of(number, 0),
        ))
        .mutant(Mutant::mad(
            "refuses-and-takes-it",
            "SubnSet is refused, and the new value is shown",
            READ_ONLY,
            move || {
                let written = std::rc::Rc::new(std::cell::Cell::new(None));
                let shown = written.clone();
                MadFaults::default()
                    .rx_edit(move |_, mad| {
                        if mad.asks(method::SET, number) {
                            written.set(Some(*mad.data()));
                        }
                    })
                    .tx_edit(move |_, mad| {
                        if mad.answers(number)
                            && let Some(data) = shown.get()
                        {
                            *mad.data_mut() = data;
                        }
                    })
            },
        ))
}

fn read_write(number: u16) -> Test {
    let name = attribute_name(number);
    let id = format!("C14_003_{name}");
    let both = format!("{id}#get-and-set");
    let assertion = both.clone();
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            run.step("1", format!("SubnGet to port {port}"));
            let get = Smp::get(number);
            let mut data = *tester.must_have_status(run, &both, port, &get, 0)?.data();
            if number == attribute::PORT_INFO {
                // No command to change a state.
                data[32] &= 0xf0;
                data[33] &= 0x0f;
            }
            run.step("2", "SubnSet with the same values");
            let answer = tester.must_have_status(run, &both, port, &Smp::set(number, data), 0)?;
            run.check_eq(RESPONSE, "method", answer.header.method, method::GET_RESP)?;
        }
        Ok(())
    };

    test(
        id,
        "C14-003",
        format!("{name} has SubnGet and SubnSet"),
        body,
    )
    .covers(&["C14-3", "C14-30"])
    .asserts([assertion.clone(), RESPONSE.to_owned()])
    .mutant(Mutant::mad(
        "cannot-be-set",
        "SubnSet is refused",
        assertion.clone(),
        move || {
            // Only where LIDs have been given already.
            let refused = move |node: &Node, mad: &OnCable| {
                let ready = node.port(mad.port).is_some_and(|port| port.is_active());
                ready && mad.asks(method::SET, number) && mad.data()[32..34] != [0x01, 0x22]
            };
            answers_to(refused, |mad| {
                set_status(mad, status::UNSUPPORTED_ATTRIBUTE)
            })
        },
    ))
    .mutant(Mutant::mad(
        "answers-with-the-request",
        "the answer to a SubnSet has the method of the request and the response bit",
        RESPONSE,
        move || {
            let sets = move |_: &Node, mad: &OnCable| mad.asks(method::SET, number);
            answers_to(sets, |mad| {
                mad.edit_header(|header| header.method = method::SET | method::RESPONSE)
            })
        },
    ))
}
