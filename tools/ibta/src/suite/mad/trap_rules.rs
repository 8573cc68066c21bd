//! How traps are sent (14.2.5.1): to whom, how often, until when, and which never.

use super::case::test;
use super::provoke;
use super::traps::{is_trap, made_up, next};
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, lid_of, timer};
use crate::rig::Envelope;
use crate::sim::MadFaults;
use ferroce_wire::smp::{self, attribute, method, node_type, trap};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        repeated(),
        repressed_by_its_transaction(),
        to_the_manager(),
        no_switch(),
    ]
}

/// SubnetTimeOut for looking at intervals: 134 ms.
const SLOW: u8 = 15;

fn repeated() -> Test {
    const AGAIN: &str = "s14.2.5.1#repeated";
    const SLOWLY: &str = "s14.2.5.1#not-faster";
    const HEARD: &str = "s14.2.5.1#repressed";

    test(
        "S14_2_5_1_01",
        "14.2.5.1",
        "a trap is sent again and again, no faster than SubnetTimeOut, until it is repressed",
        |run, tester| {
            tester.change(1, |info| info.subnet_timeout = SLOW)?;
            let interval = timer(SLOW);
            run.step("1", "a MAD with a wrong Q_Key");
            let provoked = tester.now();
            provoke::bad_q_key(tester, 1)?;
            let first = next(run, tester, 1, AGAIN, trap::BAD_Q_KEY)?;
            let mut last = first;
            for _ in 0..3 {
                run.step("2", "the same trap comes again");
                last = next(run, tester, 1, AGAIN, trap::BAD_Q_KEY)?;
                run.check_eq(AGAIN, "the trap", last.mad, first.mad)?;
            }

            // Packets may be late here, so it is all the intervals together.
            let (three, due) = (last.at.saturating_sub(first.at), 3 * interval);
            let missed_by = due.mul_f64(0.7).saturating_sub(three);
            let stalled = tester.rig().stalled(provoked, last.at);
            run.check_bound(SLOWLY, missed_by, stalled, || {
                format!("three times within {three:?}, must be {due:?} at least")
            })?;
            run.step("3", "SubnTrapRepress, and it comes no more");
            tester.repress(1, &last)?;

            // One may be on its way.
            let on_its_way = tester.receive_trap(1, interval / 2)?;
            let more = tester.receive_trap(1, 3 * interval)?;
            run.check(HEARD, more.is_none(), || {
                format!("it comes after {on_its_way:?} too")
            })?;
            tester.configure(1)
        },
    )
    .covers(&["14.2.5.1", "o13-5", "o14-2"])
    .asserts([AGAIN, SLOWLY, HEARD])
    .takes(Duration::from_millis(1500))
    .mutant(Mutant::mad(
        "only-once",
        "a trap is sent once",
        AGAIN,
        || {
            let sent = std::cell::RefCell::new(Vec::new());
            MadFaults::default().tx_drop(move |_, mad| {
                let tid = mad.header().tid;
                let is_second = mad.header().method == method::TRAP && sent.borrow().contains(&tid);
                sent.borrow_mut().push(tid);
                is_second
            })
        },
    ))
    .mutant(Mutant::mad(
        "in-a-hurry",
        "each trap is sent twice at once",
        SLOWLY,
        || {
            MadFaults::default().tx(|_, mad| {
                let once = (Duration::ZERO, mad);
                match is_trap(&mad, trap::BAD_Q_KEY) {
                    true => vec![once, once],
                    false => vec![once],
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "deaf",
        "SubnTrapRepress is not heard",
        HEARD,
        || {
            let dropped = std::cell::Cell::new(0);
            // But once the test is over.
            MadFaults::default().rx_drop(move |_, mad| {
                let repress = mad.header().method == method::TRAP_REPRESS && dropped.get() < 1;
                dropped.set(dropped.get() + u32::from(repress));
                repress
            })
        },
    ))
}

fn repressed_by_its_transaction() -> Test {
    const OTHER_TID: &str = "s14.2.5.1#transaction";

    test(
        "S14_2_5_1_02",
        "14.2.5.1",
        "SubnTrapRepress of another transaction does not stop a trap",
        |run, tester| {
            run.step("1", "a MAD with a wrong P_Key, trap 257");
            provoke::bad_p_key(tester, 1)?;
            let first = next(run, tester, 1, OTHER_TID, trap::BAD_P_KEY)?;
            run.step("2", "SubnTrapRepress with another TransactionID");
            let other = Smp {
                data: *smp::data(&first.mad),
                tid: Some(first.header.tid ^ 1),
                ..Smp::new(method::TRAP_REPRESS, attribute::NOTICE)
            };
            tester.send_mad(1, &other)?;

            // What was sent before it arrived does not count.
            for _ in 0..2 {
                run.step("3", "the trap comes again");
                let again = next(run, tester, 1, OTHER_TID, trap::BAD_P_KEY)?;
                run.check_eq(
                    OTHER_TID,
                    "TransactionID",
                    again.header.tid,
                    first.header.tid,
                )?;
            }

            tester.repress(1, &first)?;
            tester.configure(1)
        },
    )
    .covers(&["14.2.5.1", "o13-5"])
    .asserts([OTHER_TID])
    .mutant(Mutant::mad(
        "any-transaction-will-do",
        "any SubnTrapRepress stops any trap",
        OTHER_TID,
        || {
            let last = std::rc::Rc::new(std::cell::Cell::new(0));
            let sent = last.clone();
            MadFaults::default()
                .tx_edit(move |_, mad| {
                    if mad.header().method == method::TRAP {
                        sent.set(mad.header().tid);
                    }
                })
                .rx_edit(move |_, mad| {
                    if mad.header().method == method::TRAP_REPRESS {
                        mad.edit_header(|header| header.tid = last.get());
                    }
                })
        },
    ))
}

fn to_the_manager() -> Test {
    const LID: &str = "s14.2.5.1#master";

    test(
        "S14_2_5_1_03",
        "14.2.5.1",
        "traps go to MasterSMLID with MasterSMSL",
        |run, tester| {
            for (lid, sl) in [(0x55, 3), (0xbfff, 15)] {
                run.step(
                    "1",
                    format!("SubnSet(PortInfo): MasterSMLID {lid:#x}, MasterSMSL {sl}"),
                );
                tester.change(1, |info| {
                    (info.master_sm_lid, info.master_sm_sl) = (lid, sl)
                })?;
                run.step("2", "a MAD with a wrong P_Key, trap 257");
                provoke::bad_p_key(tester, 1)?;
                let trap = next(run, tester, 1, LID, trap::BAD_P_KEY)?;
                let to: Envelope = trap.envelope;
                run.check_eq(LID, "DLID and SL", (to.dlid, to.sl), (lid, sl))?;
                tester.repress(1, &trap)?;
                tester.hear_all_traps(1)?;
            }

            tester.configure(1)
        },
    )
    .covers(&["14.2.5.1"])
    .asserts([LID])
    .mutant(Mutant::mad(
        "old-habits",
        "traps go to LID 1 whoever the master is",
        LID,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if mad.header().method == method::TRAP {
                    mad.envelope.dlid = SM_LID;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "level-zero",
        "traps go with service level 0",
        LID,
        || MadFaults::default().tx_edit(|_, mad| mad.envelope.sl = 0),
    ))
}

fn no_switch() -> Test {
    const RULE: &str = "s14.2.5.1#128";

    test(
        "S14_2_5_1_128",
        "14.2.5.1",
        "a channel adapter sends no trap 128 when a link comes or goes",
        |run, tester| {
            for up in [false, true] {
                run.step("1", format!("the cable of port 2 is plugged in: {up}"));
                tester.rig().link(2, up)?;
                let states: &[u8] = if up { &[2, 3, 4] } else { &[1] };
                tester.wait_for_state(1, 2, states)?;
                run.step("2", "port 1 sends no trap 128");
                let received = tester.receive_trap(1, Duration::from_millis(200))?;
                let is_128 =
                    received.is_some_and(|trap| trap.notice.trap_number == trap::LINK_STATE);
                run.check(RULE, !is_128, || format!("{received:?}"))?;
            }
            tester.configure(2)
        },
    )
    .covers(&["14.2.5.1"])
    .asserts([RULE])
    .on_ports(2)
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "thinks-it-is-a-switch",
        "port 1 sends trap 128 when the link of port 2 changes",
        RULE,
        || {
            MadFaults::default().link(|_, _| {
                let notice = smp::Notice::LinkState(lid_of(1));
                vec![made_up(1, node_type::SWITCH, &notice)]
            })
        },
    ))
}
