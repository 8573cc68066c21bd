//! Keys of packets for queue pair 1: which match (10.9.3), and the counters of those that do not
//! (14.2.5.6).

use super::case::test;
use super::mutants::{field, shows, takes};
use super::provoke;
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use ferroce_wire::smp::{PKeyBlock, attribute};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        counter("p_key_violations", provoke::bad_p_key),
        counter("q_key_violations", provoke::bad_q_key),
        partitions(),
    ]
}

/// P_KeyViolations and Q_KeyViolations.
fn counter(name: &'static str, violate: fn(&mut Tester<'_>, u8) -> Outcome) -> Test {
    let id = format!("S14_2_5_6_{name}");
    let (counts, reset) = (
        format!("s14.2.5.6#{name}.counts"),
        format!("s14.2.5.6#{name}.reset"),
    );
    let rules = [counts.clone(), reset.clone()];
    let (caught_counts, caught_reset) = (counts.clone(), reset.clone());
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            for due in 1..=5_u16 {
                run.step("1", format!("a MAD with a wrong key to port {port}"));
                violate(tester, port)?;
                let seen = field(name).load(&tester.data(port, attribute::PORT_INFO, 0)?);
                run.check_eq(&counts, name, seen, due.into())?;
            }

            tester.hear_all_traps(port)?;

            for (written, due) in [(7, 5), (0, 0)] {
                run.step("2", format!("SubnSet(PortInfo) with {name} {written}"));
                let mut set = Smp::set_port_info(0, &tester.port_info_data(port, 0)?);
                field(name).store(&mut set.data, written);
                tester.good(port, &set)?;
                let seen = field(name).load(&tester.data(port, attribute::PORT_INFO, 0)?);
                run.check_eq(&reset, name, seen, due)?;
            }
        }

        Ok(())
    };

    test(
        id,
        "14.2.5.6",
        format!("{name} counts, and only zero resets it"),
        body,
    )
    .covers(&["14.2.5.6", "C14-24.1.1"])
    .asserts(rules)
    .mutant(Mutant::mad(
        "counts-once",
        "it stops at 1",
        caught_counts,
        move || {
            shows(attribute::PORT_INFO, move |_, _, data| {
                let seen = field(name).load(data);
                field(name).store(data, seen.min(1));
            })
        },
    ))
    .mutant(Mutant::mad(
        "any-value-resets",
        "writing any value resets it",
        caught_reset,
        move || {
            takes(attribute::PORT_INFO, move |_, _, data| {
                field(name).store(data, 0)
            })
        },
    ))
}

/// Which P_Keys match.
fn partitions() -> Test {
    const FULL: &str = "s10.9.3#full-and-limited";
    const LIMITED: &str = "s10.9.3#limited-and-limited";
    const NONE: &str = "s10.9.3#none";

    test("S10_9_3_01", "10.9.3", "packets for queue pair 1 need a P_Key of one of the port's partitions, and not limited members both", |run, tester| {
        let mut keys = PKeyBlock::parse(&tester.data(1, attribute::P_KEY_TABLE, 0)?).0;
        let before = keys;

        // A full member of partition 1, a limited one of partition 2.
        (keys[1], keys[2]) = (0x8001, 0x0002);
        let table = |keys: [u16; 32]| {
            let mut data = [0; 64];
            PKeyBlock(keys).emit(&mut data);
            Smp::set(attribute::P_KEY_TABLE, data)
        };
        tester.good(1, &table(keys))?;

        for (key, rule, good) in [
            (0x8001, FULL, true),
            (0x0001, FULL, true),
            (0x8002, FULL, true),
            (0x0002, LIMITED, false),
            (0x8003, NONE, false),
            (0x0003, NONE, false),
            (0x0000, NONE, false),
            (0x8000, NONE, false),
        ] {
            run.step("1", format!("a MAD to queue pair 1 with P_Key {key:#06x}"));
            let sent = provoke::with_keys(tester, 1, |to| to.pkey = key)?;
            match good {
                true => {
                    let answer = tester.receive_mad(1, &sent)?;
                    run.check(rule, answer.is_some(), || "no answer".to_owned())?;
                }
                false => tester.verify_no_receive_mad(run, rule, 1, &sent)?,
            }
        }

        tester.good(1, &table(before))?;
        tester.configure(1)
    })
    .covers(&["10.9.3", "C9-42"])
    .asserts([FULL, LIMITED, NONE])
    .takes(Duration::from_secs(2))
    .mutant(Mutant::mad("members-are-members", "limited members hear each other", LIMITED, || {
        MadFaults::default().rx_edit(|_, mad| {
            if mad.envelope.pkey == 2 {
                mad.envelope.pkey = 0x8002;
            }
        })
    }))
    .mutant(Mutant::mad("full-members-only", "limited members are not heard at all", FULL, || {
        MadFaults::default().rx_drop(|_, mad| mad.envelope.qp == 1 && mad.envelope.pkey < 0x8000)
    }))
    .mutant(Mutant::mad("one-great-partition", "any P_Key will do", NONE, || {
        MadFaults::default().rx_edit(|_, mad| {
            if mad.envelope.pkey & 0x7fff == 3 {
                mad.envelope.pkey = 0xffff;
            }
        })
    }))
}
