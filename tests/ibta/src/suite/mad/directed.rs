//! C14_009 and its relatives: directed routes as the port of a channel adapter sees them (C14-8 to C14-11, C14-13), and SMPs by LID.

use super::test;
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, lid_of};
use crate::rig::Envelope;
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use ferroce_wire::mad::Mad;
use ferroce_wire::smp::{self, CLASS_DIRECTED, Directed, PERMISSIVE_LID, attribute, method};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        basic(),
        silent(
            "C14_009_02",
            "a channel adapter passes nothing on",
            &[
                Route { count: 2, ..ROUTE },
                Route {
                    count: 5,
                    pointer: 2,
                    ..ROUTE
                },
                Route { count: 63, ..ROUTE },
            ],
        ),
        silent(
            "C14_009_03",
            "a hop pointer that does not fit the hop count",
            &[
                Route {
                    pointer: 0,
                    ..ROUTE
                },
                Route {
                    pointer: 3,
                    ..ROUTE
                },
                Route {
                    pointer: 200,
                    ..ROUTE
                },
                Route {
                    pointer: 255,
                    count: 255,
                    ..ROUTE
                },
            ],
        ),
        silent(
            "C14_009_04",
            "more hops than a path holds",
            &[
                Route {
                    count: 64,
                    pointer: 64,
                    ..ROUTE
                },
                Route {
                    count: 255,
                    pointer: 255,
                    ..ROUTE
                },
            ],
        ),
        silent(
            "C14_009_05",
            "a route that goes on by LID, behind a channel adapter",
            &[
                Route { dlid: 5, ..ROUTE },
                Route {
                    dlid: 0x80,
                    ..ROUTE
                },
            ],
        ),
        returning(),
        by_lid(),
        lmc(),
    ]
}

/// A directed route as it arrives.
#[derive(Clone, Copy)]
struct Route {
    count: u8,
    pointer: u8,
    dlid: u16,
    returning: bool,
}

/// One hop, as it must arrive.
const ROUTE: Route = Route {
    count: 1,
    pointer: 1,
    dlid: PERMISSIVE_LID,
    returning: false,
};

fn request(tester: &mut Tester<'_>, port: u8, route: Route) -> Mad {
    let tid = tester.next_tid();
    let mut mad = Smp::get(attribute::NODE_INFO).emit(port, 0, tid);
    Directed {
        returning: route.returning,
        hop_pointer: route.pointer,
        hop_count: route.count,
        dr_slid: PERMISSIVE_LID,
        dr_dlid: route.dlid,
    }
    .emit(&mut mad);
    mad
}

fn basic() -> Test {
    const DIRECTION: &str = "C14_009_01#direction";
    const KEPT: &str = "C14_009_01#kept";
    const POINTER: &str = "C14_009_01#pointer";
    const PATH: &str = "C14_009_01#return-path";
    test(
        "C14_009_01",
        "C14-009",
        "an SMP of one hop is answered on the way that it came",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step("1", format!("SubnGet(NodeInfo) to port {port}"));
                let mut mad = request(tester, port, ROUTE);
                // What is not used of the path is as it was.
                smp::initial_path_mut(&mut mad)[2..].fill(0x5a);
                let sent = tester.send_as_is(port, Envelope::directed(), &mad)?;
                let answer = tester.receive_mad(port, &sent)?;
                run.check(DIRECTION, answer.is_some(), || "no answer".to_owned())?;
                let answer = answer.expect("just checked");
                let (asked, route) = (Directed::parse(&mad), answer.directed());
                run.step("2", "the status is good, and the direction bit is set");
                run.check_eq(
                    DIRECTION,
                    "status and direction",
                    (answer.status(), route.returning),
                    (0, true),
                )?;
                run.step(
                    "3",
                    "class, hop count, DrSLID, DrDLID and initial path are as they were",
                );
                let kept = |mad: &Mad, route: &Directed| {
                    (
                        mad[1],
                        route.hop_count,
                        route.dr_slid,
                        route.dr_dlid,
                        *smp::initial_path(mad),
                    )
                };
                run.check_eq(
                    KEPT,
                    "what belongs to the route",
                    kept(&answer.mad, &route),
                    kept(&mad, &asked),
                )?;
                run.step("4", "the hop pointer is the hop count");
                run.check_eq(POINTER, "HopPointer", route.hop_pointer, route.hop_count)?;
                run.step("5", "the return path names the port that received it");
                run.check_eq(
                    PATH,
                    "ReturnPath[1]",
                    smp::return_path(&answer.mad)[1],
                    port,
                )?;
                let from = (
                    answer.envelope.slid,
                    answer.envelope.dlid,
                    answer.envelope.sl,
                );
                run.check_eq(
                    KEPT,
                    "SLID, DLID and SL",
                    from,
                    (PERMISSIVE_LID, PERMISSIVE_LID, 0),
                )?;
            }
            Ok(())
        },
    )
    .covers(&["C14-9", "C14-13"])
    .asserts([DIRECTION, KEPT, POINTER, PATH])
    .on_ports(2)
    .mutant(Mutant::mad(
        "forgets-the-way",
        "ReturnPath is not filled in",
        PATH,
        || edits_answers(|mad| smp::return_path_mut(mad)[1] = 0),
    ))
    .mutant(Mutant::mad(
        "does-not-turn",
        "the direction bit is not set",
        DIRECTION,
        || edits_answers(|mad| mad[4] &= 0x7f),
    ))
    .mutant(Mutant::mad(
        "does-not-count",
        "the hop pointer of the answer is not brought up to date",
        POINTER,
        || edits_answers(|mad| mad[6] = 2),
    ))
    .mutant(Mutant::mad(
        "wipes-the-path",
        "the initial path of the answer is empty",
        KEPT,
        || edits_answers(|mad| smp::initial_path_mut(mad).fill(0)),
    ))
}

fn edits_answers(edit: fn(&mut Mad)) -> MadFaults {
    MadFaults::default().tx_edit(move |_, mad| {
        if mad.envelope.qp == 0 && mad.mad[1] == CLASS_DIRECTED {
            edit(&mut mad.mad);
        }
    })
}

/// Routes that are dropped.
fn silent(id: &'static str, title: &'static str, routes: &'static [Route]) -> Test {
    let rule = format!("{id}#silent");
    let assertion = rule.clone();
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            let mut sent = Vec::new();
            for route in routes {
                run.step(
                    "1",
                    format!(
                        "hop count {}, hop pointer {}, DrDLID {:#06x} to port {port}",
                        route.count, route.pointer, route.dlid
                    ),
                );
                let mad = request(tester, port, *route);
                sent.push(tester.send_as_is(port, Envelope::directed(), &mad)?);
            }
            run.step("2", "VerifyNoReceiveMad");
            tester.verify_none_received(run, &rule, port, &sent)?;
            run.step("3", "SubnGet(NodeInfo) by the right route is answered");
            tester.must_have_status(run, &rule, port, &Smp::get(attribute::NODE_INFO), 0)?;
        }
        Ok(())
    };
    test(id, "C14-009", format!("{title}: dropped"), body)
        .covers(&["C14-9"])
        .asserts([assertion.clone()])
        .takes(Duration::from_secs(2))
        .mutant(Mutant::mad(
            "every-way-leads-here",
            "the route is not looked at",
            assertion,
            || {
                MadFaults::default().rx_edit(|_, mad| {
                    if mad.envelope.qp == 0 && mad.mad[1] == CLASS_DIRECTED {
                        let route = Directed {
                            hop_pointer: 1,
                            hop_count: 1,
                            dr_dlid: PERMISSIVE_LID,
                            ..Directed::parse(&mad.mad)
                        };
                        route.emit(&mut mad.mad);
                    }
                })
            },
        ))
}

fn returning() -> Test {
    const RULE: &str = "C14_013_01#silent";
    test(
        "C14_013_01",
        "C14-009",
        "an SMP on its way back that does not end here: dropped",
        |run, tester| {
            let mut sent = Vec::new();
            for (count, pointer) in [(2, 2), (3, 2), (63, 63)] {
                run.step(
                    "1",
                    format!("direction bit set, hop count {count}, hop pointer {pointer}"),
                );
                let route = Route {
                    count,
                    pointer,
                    returning: true,
                    ..ROUTE
                };
                let mut mad = request(tester, 1, route);
                smp::return_path_mut(&mut mad)[1..].fill(1);
                sent.push(tester.send_as_is(1, Envelope::directed(), &mad)?);
            }
            run.step("2", "nothing comes back");
            let timeout = tester.response_timeout(1);
            let came = tester.next(1, timeout, |from, mad| {
                from.qp == 0 && mad[3] == method::GET
            })?;
            run.check(RULE, came.is_none(), || {
                "an SMP on its way back was passed on".to_owned()
            })?;
            tester.verify_none_received(run, RULE, 1, &sent)?;
            Ok(())
        },
    )
    .covers(&["C14-13"])
    .asserts([RULE])
    .takes(Duration::from_secs(2))
    .mutant(Mutant::mad(
        "turns-it-round",
        "SMPs on their way back are answered",
        RULE,
        || {
            MadFaults::default().rx_edit(|_, mad| {
                if mad.envelope.qp == 0
                    && mad.mad[1] == CLASS_DIRECTED
                    && Directed::parse(&mad.mad).returning
                {
                    Directed {
                        returning: false,
                        hop_pointer: 1,
                        hop_count: 1,
                        ..Directed::parse(&mad.mad)
                    }
                    .emit(&mut mad.mad);
                }
            })
        },
    ))
}

fn by_lid() -> Test {
    const BACK: &str = "S14_2_1_01#addresses";
    const DIRECTION: &str = "S14_2_1_01#no-direction";
    test(
        "S14_2_1_01",
        "14.2.1",
        "a LID-routed SMP is answered by LID, with the addresses turned round",
        |run, tester| {
            for port in 1..=tester.ports() {
                for sl in [0, 5, 15] {
                    run.step(
                        "1",
                        format!("SubnGet(NodeInfo) by LID {:#06x}, SL {sl}", lid_of(port)),
                    );
                    let tid = tester.next_tid();
                    let mad = Smp::get(attribute::NODE_INFO)
                        .to_lid(lid_of(port))
                        .emit(port, 0, tid);
                    let to = Envelope {
                        sl,
                        ..Envelope::smp(0x1234, lid_of(port))
                    };
                    let sent = tester.send_as_is(port, to, &mad)?;
                    let answer = tester.receive_mad(port, &sent)?;
                    run.check(BACK, answer.is_some(), || "no answer".to_owned())?;
                    let answer = answer.expect("just checked");
                    let seen = (
                        answer.envelope.slid,
                        answer.envelope.dlid,
                        answer.envelope.sl,
                    );
                    run.check_eq(BACK, "SLID, DLID and SL", seen, (lid_of(port), 0x1234, sl))?;
                    run.check_eq(DIRECTION, "status, all bits of it", answer.header.status, 0)?;
                }
            }
            Ok(())
        },
    )
    .covers(&["14.2.1"])
    .asserts([BACK, DIRECTION])
    .mutant(Mutant::mad(
        "answers-the-manager",
        "answers go to the master subnet manager",
        BACK,
        || {
            MadFaults::default().tx_edit(|node, mad| {
                if mad.mad[1] == smp::CLASS_LID {
                    mad.envelope.dlid = node
                        .port(mad.port)
                        .map_or(SM_LID, |port| port.info().master_sm_lid);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "direction-without-route",
        "the direction bit is set in LID-routed answers",
        DIRECTION,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if mad.mad[1] == smp::CLASS_LID {
                    mad.mad[4] |= 0x80;
                }
            })
        },
    ))
}

fn lmc() -> Test {
    const OWN: &str = "v1c07-066#01";
    const OTHERS: &str = "v1c07-066#02";
    test(
        "C07_066_01",
        "C07-066",
        "a port has the LIDs that its LMC says, and no others",
        |run, tester| {
            for lmc in 0..=7_u8 {
                let base = 0x180_u16;
                run.step("1", format!("LMC {lmc}, base LID {base:#x}"));
                tester.change(1, |info| (info.lmc, info.lid) = (lmc, base))?;
                let last = base + ((1 << lmc) - 1);
                run.step("2", "all of its LIDs answer");
                for lid in [base, base + (last - base) / 2, last] {
                    let answer = tester.ask(1, &Smp::get(attribute::NODE_INFO).to_lid(lid))?;
                    let seen = answer.map(|answer| answer.envelope.slid);
                    run.check(OWN, seen == Some(lid), || {
                        format!("LID {lid:#x} is answered from {seen:x?}")
                    })?;
                }
                run.step("3", "its neighbours do not");
                let mut sent = Vec::new();
                for lid in [base - 1, last + 1, 0xbfff] {
                    sent.push(tester.send_mad(1, &Smp::get(attribute::NODE_INFO).to_lid(lid))?);
                }
                tester.verify_none_received(run, OTHERS, 1, &sent)?;
            }
            tester.configure(1)
        },
    )
    .covers(&["C7-66"])
    .asserts([OWN, OTHERS])
    .takes(Duration::from_secs(8))
    .mutant(Mutant::mad(
        "base-lid-only",
        "only the base LID is answered",
        OWN,
        || {
            MadFaults::default().rx_drop(|node, mad| {
                mad.envelope.dlid != PERMISSIVE_LID
                    && node
                        .port(mad.port)
                        .is_some_and(|port| port.lid() != mad.envelope.dlid)
            })
        },
    ))
    .mutant(Mutant::mad(
        "one-lid-more",
        "the LID behind the last is answered too",
        OTHERS,
        || {
            MadFaults::default().rx_edit(|node, mad| {
                let port = node.port(mad.port).expect("a port");
                let behind = port.lid().wrapping_add(1 << port.info().lmc);
                if mad.envelope.qp == 0 && mad.envelope.dlid == behind {
                    mad.envelope.dlid = port.lid();
                }
            })
        },
    ))
}
