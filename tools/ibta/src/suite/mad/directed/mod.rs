//! C14_009 and its relatives: directed routes as the port of a channel adapter sees them (C14-8 to
//! C14-11, C14-13), and SMPs by LID.

mod by_lid;
mod dropped;

use super::case::test;
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::rig::Envelope;
use crate::sim::MadFaults;
use by_lid::{by_lid, lmc};
use dropped::{returning, silent};
use ferroce_wire::mad::Mad;
use ferroce_wire::smp::{self, CLASS_DIRECTED, Directed, PERMISSIVE_LID, attribute};

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
    .covers(&["C14-9", "C14-10", "C14-11", "C14-13"])
    .asserts([DIRECTION, KEPT, POINTER, PATH])
    .tried_on_ports(2)
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
