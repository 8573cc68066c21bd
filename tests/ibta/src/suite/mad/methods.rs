//! C14_003 and its relatives: which methods go with which attributes, what is answered, and how (C13-24, C14-3, C14-30, C14-31).

use super::mutants::status_of;
use super::{provoke, test};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester, attribute_name};
use crate::run::{Outcome, Run};
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::mad::MadHeader;
use ferroce_wire::smp::{self, CLASS_DIRECTED, attribute, method, status};

const UNSUPPORTED: &str = "v1c14-031#01";
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
    let kept = format!("{id}#kept");
    let assertion = kept.clone();
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
        run.check(&kept, after == before, || {
            "a refused SubnSet has changed it".to_owned()
        })
    };
    test(id, "C14-003", format!("{name} has no SubnSet"), body)
        .covers(&["C14-3", "C14-31"])
        .asserts([UNSUPPORTED.to_owned(), assertion.clone()])
        .mutant(Mutant::mad(
            "takes-it",
            "SubnSet has status 0",
            UNSUPPORTED,
            move || status_of(number, 0),
        ))
        .mutant(Mutant::mad(
            "refuses-and-takes-it",
            "SubnSet is refused, and the new value is shown",
            assertion,
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
            // Told by a transaction that is a SubnSet's, and only where LIDs have been given already.
            let sets = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let tids = sets.clone();
            MadFaults::default()
                .rx_edit(move |node, mad| {
                    let ready = node.port(mad.port).is_some_and(|port| port.is_active());
                    if ready && mad.asks(method::SET, number) && mad.data()[32..34] != [0x01, 0x22]
                    {
                        tids.borrow_mut().push(mad.header().tid);
                    }
                })
                .tx_edit(move |_, mad| {
                    if mad.answers(number) && sets.borrow().contains(&mad.header().tid) {
                        mad.edit_header(|header| header.status |= status::UNSUPPORTED_ATTRIBUTE);
                    }
                })
        },
    ))
    .mutant(Mutant::mad(
        "answers-with-the-request",
        "the answer to a SubnSet has the method of the request and the response bit",
        RESPONSE,
        move || {
            let sets = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let tids = sets.clone();
            MadFaults::default()
                .rx_edit(move |_, mad| {
                    if mad.asks(method::SET, number) {
                        tids.borrow_mut().push(mad.header().tid);
                    }
                })
                .tx_edit(move |_, mad| {
                    if sets.borrow().contains(&mad.header().tid) {
                        mad.edit_header(|header| header.method = method::SET | method::RESPONSE);
                    }
                })
        },
    ))
}

fn unknown_attributes() -> Test {
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

fn unknown_methods() -> Test {
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
                    mad.edit_header(|header| {
                        header.status =
                            header.status & smp::DIRECTION | status::UNSUPPORTED_ATTRIBUTE
                    });
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

fn responses() -> Test {
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

fn not_answered() -> Test {
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
    .covers(&["C14-3"])
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

fn version(id: &'static str, name: &'static str, edit: fn(&mut Smp, u8)) -> Test {
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

fn header() -> Test {
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

fn other_classes() -> Test {
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

fn no_agent() -> Test {
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
