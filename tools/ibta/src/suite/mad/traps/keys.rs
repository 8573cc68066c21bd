//! Traps 257 and 258: a wrong P_Key or Q_Key in a MAD for queue pair 1.

use super::{common, mute, next, tells};
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Tester, Trap, lid_of};
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use crate::suite::mad::provoke;
use ferroce_wire::smp::trap;

/// The assertions about one of the traps.
#[derive(Clone)]
struct Rules {
    sent: String,
    notice: String,
    who: String,
    key: String,
    dropped: String,
}

impl Rules {
    fn new(number: u16) -> Rules {
        let rule = |what: &str| format!("s14.2.5.1#{number}.{what}");
        Rules {
            sent: rule("sent"),
            notice: rule("notice"),
            who: rule("who"),
            key: rule("key"),
            dropped: rule("dropped"),
        }
    }
}

pub(super) fn bad_key(number: u16) -> Test {
    let id = format!("S14_2_5_1_{number}");
    let rules = Rules::new(number);
    let decided = rules.clone();
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            run.step("1", format!("a MAD to queue pair 1 of port {port} with a wrong key, SL 5, from queue pair 0x123456"));
            let provoked = provoke::with_keys(tester, port, |to| {
                (to.sl, to.src_qp) = (5, 0x12_3456);
                match number {
                    trap::BAD_P_KEY => to.pkey = provoke::BAD_P_KEY,
                    _ => to.qkey = provoke::BAD_Q_KEY,
                }
            })?;

            run.step("2", format!("trap {number} comes"));
            let trap = next(run, tester, port, &decided.sent, number)?;
            common(run, &decided.notice, port, &trap, 2)?;
            says_all(run, &decided, number, port, &trap)?;
            tester.repress(port, &trap)?;

            run.step("5", "the MAD itself is not answered");
            tester.verify_no_receive_mad(run, &decided.dropped, port, &provoked)?;
            tester.change(port, |info| {
                (info.p_key_violations, info.q_key_violations) = (0, 0)
            })?;
        }

        Ok(())
    };

    let name = if number == trap::BAD_P_KEY {
        "P_Key"
    } else {
        "Q_Key"
    };

    // Of a wrong P_Key the rule that drops the packet is known by its number.
    let statements: &[_] = match number {
        trap::BAD_P_KEY => &["14.2.5.1", "C9-42"],
        _ => &["14.2.5.1"],
    };

    test(
        id,
        "14.2.5.1",
        format!("trap {number} tells of a wrong {name}"),
        body,
    )
    .covers(statements)
    .asserts(
        [
            &rules.sent,
            &rules.notice,
            &rules.who,
            &rules.key,
            &rules.dropped,
        ]
        .map(Clone::clone),
    )
    .mutant(Mutant::mad(
        "keeps-it-secret",
        "no trap is sent",
        rules.sent,
        move || mute(number),
    ))
    .mutant(Mutant::mad(
        "shows-another-key",
        "the key in the notice is wrong",
        rules.key,
        move || tells(number, 9, 0),
    ))
    .mutant(Mutant::mad(
        "shows-another-queue-pair",
        "the queue pair in the notice is wrong",
        rules.who,
        move || tells(number, 13, 0),
    ))
    .mutant(takes_it(&rules.dropped))
}

/// Steps 3 and 4: the details of the notice.
fn says_all(run: &mut Run, rules: &Rules, number: u16, port: u8, trap: &Trap) -> Outcome {
    run.step("3", "it says from where and to where");
    let seen = (
        trap.u16_at(2),
        trap.u16_at(4),
        trap.details[10] >> 4,
        trap.u32_at(10) & 0xff_ffff,
        trap.u32_at(14) & 0xff_ffff,
    );

    run.check_eq(
        &rules.who,
        "LIDADDR1, LIDADDR2, SL, QP1, QP2",
        seen,
        (SM_LID, lid_of(port), 5, 0x12_3456, 1),
    )?;

    run.step("4", "it says with which key");
    let due = match number {
        trap::BAD_P_KEY => provoke::BAD_P_KEY.into(),
        _ => provoke::BAD_Q_KEY,
    };
    run.check_eq(&rules.key, "KEY", trap.u32_at(6), due)
}

/// A device that takes a MAD with a wrong key for a right one, too.
fn takes_it(assertion: &str) -> Mutant {
    Mutant::mad(
        "tells-and-takes-it",
        "the MAD is answered all the same",
        assertion,
        || {
            MadFaults::default().rx(|_, mad| {
                let mut good = mad;
                (good.envelope.pkey, good.envelope.qkey) = (0xffff, ferroce_wire::mad::QP1_QKEY);
                match mad.envelope.qp == 1 && good.envelope != mad.envelope {
                    true => vec![mad, good],
                    false => vec![mad],
                }
            })
        },
    )
}
