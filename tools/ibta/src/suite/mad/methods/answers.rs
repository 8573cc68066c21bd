//! Of the header: what is never answered, which versions are refused, and what an answer has from
//! its request.

use super::RESPONSE;
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use ferroce_wire::mad::MadHeader;
use ferroce_wire::smp::{attribute, method, status};

pub(super) fn responses() -> Test {
    const RULE: &str = "C14_003_responses#silent";

    test(
        "C14_003_responses",
        "C14-003",
        "responses that nobody waits for are not answered",
        |run, tester| {
            let mut sent = Vec::new();
            for asked in [method::GET_RESP, 0x82, 0x83, 0x85, 0x86, 0x87, 0xff] {
                run.step("1", format!("method {asked:#04x} of NodeInfo"));
                sent.push(tester.send_mad(1, &Smp::new(asked, attribute::NODE_INFO))?);
            }
            tester.verify_none_received(run, RULE, 1, &sent)
        },
    )
    .covers(&["C14-3"])
    .asserts([RULE])
    .takes(std::time::Duration::from_secs(2))
    .mutant(Mutant::mad(
        "answers-answers",
        "SubnGetResp is answered as SubnGet is",
        RULE,
        || {
            MadFaults::default().rx_edit(|_, mad| {
                if mad.asks(method::GET_RESP, attribute::NODE_INFO) {
                    mad.edit_header(|header| header.method = method::GET);
                }
            })
        },
    ))
}

pub(super) fn not_answered() -> Test {
    const TRAP: &str = "C14_003_traps#trap";
    const REPRESS: &str = "C14_003_traps#repress";

    test(
        "C14_003_traps",
        "C14-003",
        "SubnTrap and SubnTrapRepress are not answered",
        |run, tester| {
            for (step, asked, rule) in [
                ("1", method::TRAP, TRAP),
                ("2", method::TRAP_REPRESS, REPRESS),
            ] {
                run.step(step, format!("method {asked:#04x} of Notice"));
                tester.must_be_silent(run, rule, 1, &Smp::new(asked, attribute::NOTICE))?;
            }
            Ok(())
        },
    )
    .covers(&["C14-3", "o14-3"])
    .asserts([TRAP, REPRESS])
    .mutant(Mutant::mad(
        "answers-traps",
        "SubnTrap is answered",
        TRAP,
        || becomes_get(method::TRAP),
    ))
    .mutant(Mutant::mad(
        "confirms-repress",
        "SubnTrapRepress is answered",
        REPRESS,
        || becomes_get(method::TRAP_REPRESS),
    ))
}

/// A method is answered as SubnGet(NodeInfo) would be, with the request's attribute.
fn becomes_get(asked: u8) -> MadFaults {
    MadFaults::default()
        .rx_edit(move |_, mad| {
            if mad.envelope.qp == 0 && mad.header().method == asked {
                mad.edit_header(|header| {
                    (header.method, header.attribute) = (method::GET, attribute::LED_INFO)
                });
            }
        })
        .tx_edit(|_, mad| {
            if mad.answers(attribute::LED_INFO) {
                mad.edit_header(|header| header.attribute = attribute::NOTICE);
            }
        })
}

pub(super) fn version(id: &'static str, name: &'static str, edit: fn(&mut Smp, u8)) -> Test {
    let rule = format!("{id}#status");
    let assertion = rule.clone();
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for version in [0, 2, 3, 0x80, 0xff] {
            for mut request in [
                Smp::get(attribute::NODE_INFO),
                Smp::set(attribute::LED_INFO, [0xff; 64]),
            ] {
                edit(&mut request, version);
                run.step(
                    "1",
                    format!("method {:#x}, MADHeader:{name} {version}", request.method),
                );
                tester.must_have_status(run, &rule, 1, &request, status::BAD_VERSION)?;
            }
        }

        let lamp = tester.data(1, attribute::LED_INFO, 0)?;
        run.check(&rule, lamp == [0; 64], || {
            "a SubnSet of another version was carried out".to_owned()
        })
    };

    test(
        id,
        "C13-024",
        format!("requests with another {name} have status 1"),
        body,
    )
    .covers(&["C13-24"])
    .asserts([assertion.clone()])
    .mutant(Mutant::mad(
        "any-version-will-do",
        "the version is not looked at",
        assertion,
        || {
            MadFaults::default().rx_edit(|_, mad| {
                mad.edit_header(|header| (header.base_version, header.class_version) = (1, 1))
            })
        },
    ))
}

pub(super) fn header() -> Test {
    const SAME: &str = "C14_030_header#same";

    test("C14_030_header", "C14-030", "the answer has transaction, attribute, modifier, class and versions of the request", |run, tester| {
        for tid in [1, 0x8000_0000_0000_0000, u64::MAX, 0x0123_4567_89ab_cdef] {
            for route in [None, Some(crate::mad::lid_of(1))] {
                for (number, modifier) in [(attribute::NODE_INFO, 0), (attribute::PORT_INFO, 1), (0x7777, 0x8765_4321)] {
                    let request = Smp { tid: Some(tid), dlid: route, ..Smp::get(number).about(modifier) };
                    run.step("1", format!("TransactionID {tid:#x}, attribute {number:#06x}, modifier {modifier:#x}"));
                    let answer = tester.must_answer(run, RESPONSE, 1, &request)?;
                    run.check_eq(RESPONSE, "method", answer.header.method, method::GET_RESP)?;
                    let asked = MadHeader::parse(&request.emit(1, 0, tid)).expect("a whole MAD");
                    let same = |header: &MadHeader| (header.base_version, header.class, header.class_version, header.tid, header.attribute, header.modifier);
                    run.check_eq(SAME, "the header", same(&answer.header), same(&asked))?;
                }
            }
        }
        Ok(())
    })
    .covers(&["C14-30"])
    .asserts([SAME, RESPONSE])
    .mutant(Mutant::mad("forgets-the-modifier", "AttributeModifier of answers is 0", SAME, || {
        MadFaults::default().tx_edit(|_, mad| mad.edit_header(|header| header.modifier = 0))
    }))
    .mutant(Mutant::mad("half-a-transaction", "the upper half of TransactionID is lost where it is all ones", RESPONSE, || {
        MadFaults::default().tx_edit(|_, mad| {
            mad.edit_header(|header| {
                if header.tid >> 32 == 0xffff_ffff {
                    header.tid &= 0xffff_ffff;
                }
            })
        })
    }))
}
