//! Attributes, methods and classes that do not exist here: they are refused or dropped, and change
//! nothing.

use super::UNSUPPORTED;
use crate::catalog::{Mutant, Test};
use crate::mad::Smp;
use crate::sim::{MadFaults, OnCable};
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{set_status, status_of};
use crate::suite::mad::provoke;
use ferroce_wire::smp::{CLASS_DIRECTED, attribute, method, status};

pub(super) fn unknown_attributes() -> Test {
    let known =
        |number: u16| matches!(number, 0x02 | 0x10..=0x12 | 0x14..=0x1b | 0x20 | 0x30 | 0x31);
    test(
        "C14_003_unknown_attributes",
        "C14-003",
        "attributes that do not exist are refused",
        move |run, tester| {
            let numbers = (0x00..=0x40_u16)
                .filter(|number| !known(*number))
                .chain([0x00ff, 0x0100, 0x7fff, 0xfeff]);
            for number in numbers {
                run.step(
                    "1",
                    format!("SubnGet and SubnSet of attribute {number:#06x}"),
                );
                for request in [Smp::get(number), Smp::set(number, [0xff; 64])] {
                    tester.must_have_status(
                        run,
                        UNSUPPORTED,
                        1,
                        &request,
                        status::UNSUPPORTED_ATTRIBUTE,
                    )?;
                }
            }

            Ok(())
        },
    )
    .covers(&["C14-3", "C14-31"])
    .asserts([UNSUPPORTED])
    .mutant(Mutant::mad(
        "knows-one-more",
        "attribute 0x0013 is answered with status 0",
        UNSUPPORTED,
        || status_of(0x13, 0),
    ))
    .mutant(Mutant::mad(
        "busy",
        "attribute 0x0000 is answered as if it could be had later",
        UNSUPPORTED,
        || status_of(0, 1),
    ))
}

pub(super) fn unknown_methods() -> Test {
    const RULE: &str = "C14_003_unknown_methods#status";
    const UNCHANGED: &str = "C14_003_unknown_methods#unchanged";

    test(
        "C14_003_unknown_methods",
        "C14-003",
        "methods that do not exist are refused or dropped, and change nothing",
        |run, tester| {
            let before = tester.port_info(1, 0)?;
            let data = Smp::set_port_info(
                0,
                &ferroce_wire::smp::PortInfo {
                    vl_high_limit: 0x77,
                    port_state: 0,
                    port_physical_state: 0,
                    ..before
                },
            )
            .data;

            let known = [method::GET, method::SET, method::TRAP, method::TRAP_REPRESS];
            let mut sent = Vec::new();
            for asked in (0..0x80_u8).filter(|asked| !known.contains(asked)) {
                run.step("1", format!("method {asked:#04x} of PortInfo"));
                let request = Smp::new(asked, attribute::PORT_INFO).with(data);
                sent.push((asked, tester.send_mad(1, &request)?));
            }

            run.step(
                "2",
                "an answer, if there is one, says that there is no such method",
            );

            let timeout = tester.response_timeout(1);
            tester.sleep(timeout)?;

            for (asked, sent) in sent {
                let answer = tester.answer_until(1, &sent, std::time::Duration::ZERO)?;
                let good = answer.is_none_or(|answer| {
                    (answer.header.method, answer.status())
                        == (method::GET_RESP, status::UNSUPPORTED_METHOD)
                });
                run.check(RULE, good, || {
                    format!(
                        "method {asked:#04x} is answered by {:?}",
                        answer.map(|answer| answer.header)
                    )
                })?;
            }

            run.step("3", "PortInfo is as it was");
            let after = tester.port_info(1, 0)?;
            run.check_eq(UNCHANGED, "PortInfo", after, before)
        },
    )
    .covers(&["C13-24", "C14-3"])
    .asserts([RULE, UNCHANGED])
    .mutant(Mutant::mad(
        "blames-the-attribute",
        "another method is refused as another attribute would be",
        RULE,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if mad.header().status & 0x1c == status::UNSUPPORTED_METHOD {
                    set_status(mad, status::UNSUPPORTED_ATTRIBUTE);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "method-three-is-set",
        "method 3 is carried out as SubnSet, in silence",
        UNCHANGED,
        || {
            MadFaults::default()
                .rx_edit(|_, mad| {
                    if mad.asks(3, attribute::PORT_INFO) {
                        mad.edit_header(|header| (header.method, header.tid) = (method::SET, 3));
                    }
                })
                .tx_drop(|_, mad| mad.header().tid == 3)
        },
    ))
}

pub(super) fn other_classes() -> Test {
    const RULE: &str = "C14_003_classes#silent";

    test(
        "C14_003_classes",
        "C14-003",
        "MADs of other classes are not answered at queue pair 0",
        |run, tester| {
            let mut sent = Vec::new();
            for class in [0x02, 0x03, 0x04, 0x07, 0x09, 0x30, 0x80, 0x82, 0xff] {
                run.step("1", format!("class {class:#04x} to queue pair 0"));
                let tid = tester.next_tid();
                let mut mad = Smp::get(attribute::NODE_INFO).emit(1, 0, tid);
                mad[1] = class;
                sent.push(tester.send_as_is(1, crate::rig::Envelope::directed(), &mad)?);
            }
            tester.verify_none_received(run, RULE, 1, &sent)
        },
    )
    .covers(&["C14-3"])
    .asserts([RULE])
    .takes(std::time::Duration::from_secs(3))
    .mutant(Mutant::mad(
        "all-classes-are-one",
        "class 3 at queue pair 0 is answered as directed-route subnet management",
        RULE,
        || {
            let tids = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let changed = tids.clone();
            MadFaults::default()
                .rx_edit(move |_, mad: &mut OnCable| {
                    if mad.envelope.qp == 0 && mad.header().class == 3 {
                        tids.borrow_mut().push(mad.header().tid);
                        mad.edit_header(|header| header.class = CLASS_DIRECTED);
                    }
                })
                .tx_edit(move |_, mad| {
                    if changed.borrow().contains(&mad.header().tid) {
                        mad.edit_header(|header| header.class = 3);
                    }
                })
        },
    ))
}

pub(super) fn no_agent() -> Test {
    const GET: &str = "S13_4_7_01#get-and-set";
    const SILENT: &str = "S13_4_7_01#others";

    test("S13_4_7_01", "13.4.7", "at queue pair 1 requests of a class without an agent are refused, and nothing else is answered", |run, tester| {
        // Vendor-specific and application classes, which nobody has here.
        for class in [0x0b_u8, 0x15, 0x30] {
            for asked in [method::GET, method::SET, method::TRAP, method::GET_RESP] {
                run.step("1", format!("class {class:#04x}, method {asked:#04x}"));
                let mut mad = provoke::perf(tester, asked, 0x11);
                mad[1] = class;
                let to = crate::rig::Envelope::gmp(crate::mad::SM_LID, crate::mad::lid_of(1));
                let sent = tester.send_as_is(1, to, &mad)?;
                if matches!(asked, method::GET | method::SET) {
                    let answer = tester.receive_mad(1, &sent)?;
                    let refused = answer.is_some_and(|answer| (answer.header.method, answer.status()) == (method::GET_RESP, status::UNSUPPORTED_ATTRIBUTE));
                    run.check(GET, refused, || format!("the answer is {answer:?}"))?;
                } else {
                    tester.verify_no_receive_mad(run, SILENT, 1, &sent)?;
                }
            }
        }

        Ok(())
    })
    .covers(&["13.4.7"])
    .asserts([GET, SILENT])
    .takes(std::time::Duration::from_secs(2))
    .mutant(Mutant::mad("silent", "requests without an agent time out", GET, || {
        MadFaults::default().rx_drop(|_, mad| mad.envelope.qp == 1)
    }))
    .mutant(Mutant::mad("answers-everything", "other methods are answered too", SILENT, || {
        MadFaults::default().rx_edit(|_, mad| {
            if mad.envelope.qp == 1 {
                mad.edit_header(|header| header.method = method::GET);
            }
        })
    }))
    .mutant(Mutant::mad("says-it-is-fine", "requests without an agent have status 0", GET, || {
        MadFaults::default().tx_edit(|_, mad| {
            if mad.envelope.qp == 1 {
                mad.edit_header(|header| header.status = 0);
            }
        })
    }))
}
