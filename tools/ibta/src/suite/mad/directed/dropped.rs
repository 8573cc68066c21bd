//! Directed routes that do not end here, or that are none: dropped.

use super::{ROUTE, Route, request};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::rig::Envelope;
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use ferroce_wire::smp::{self, CLASS_DIRECTED, Directed, PERMISSIVE_LID, attribute, method};
use std::time::Duration;

/// Routes that are dropped.
pub(super) fn silent(id: &'static str, title: &'static str, routes: &'static [Route]) -> Test {
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

pub(super) fn returning() -> Test {
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
            let passed_on = tester.next(1, timeout, |from, mad| {
                from.qp == 0 && mad[3] == method::GET
            })?;
            run.check(RULE, passed_on.is_none(), || {
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
