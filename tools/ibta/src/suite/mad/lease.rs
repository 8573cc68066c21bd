//! C14_017: the lease of the M_Key's protection (C14-17, C14-19, C14-20, C14-21).

use super::case::test;
use super::mutants::{field, shows, takes};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run};
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::smp::{self, PortInfo, attribute, method};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const DUT: u64 = 0x1b7a_0017_0000_0001;
const OTHER: u64 = 0x1b7a_0017_0000_0002;
const LEVEL: u8 = 2;
const STOPPED: &str = "v1c14-019#01";
const NEVER: &str = "v1c14-021#01";
/// The lease in seconds.
const PERIOD: u16 = 1;
const HALF: Duration = Duration::from_millis(500);
/// How much longer than the period one waits for its end: so soon at the latest the device must
/// have heard what began it.
const SPARE: Duration = Duration::from_millis(100);

pub(super) fn tests() -> Vec<Test> {
    vec![
        expires(),
        not_prolonged(),
        stopped("C14_017_03", method::GET),
        stopped("C14_017_04", method::SET),
        zero(),
        of_one_port(),
    ]
}

fn prepare(run: &mut Run, tester: &mut Tester<'_>, port: u8, period: u16) -> Outcome {
    run.step(
        "init",
        format!("port {port}: M_Key {DUT:#x}, M_KeyProtectBits {LEVEL}, M_KeyLeasePeriod {period}"),
    );
    tester.change(port, |info| {
        (info.m_key, info.m_key_protect_bits, info.m_key_lease_period) = (DUT, LEVEL, period);
    })?;
    Ok(())
}

/// A request whose key is wrong: the timer begins.
fn violate(run: &mut Run, tester: &mut Tester<'_>, port: u8) -> Outcome {
    run.step("1", "SubnGet(NodeInfo) with another M_Key");
    tester.send_mad(port, &Smp::get(attribute::NODE_INFO).key(OTHER))?;
    Ok(())
}

fn state(tester: &mut Tester<'_>, port: u8) -> Outcome<PortInfo> {
    tester.port_info(port, 0)
}

fn release(tester: &mut Tester<'_>, port: u8) -> Outcome {
    tester.change(port, |info| {
        (info.m_key, info.m_key_protect_bits, info.m_key_lease_period) = (0, 0, 0);
    })?;
    Ok(())
}

fn is_wrong(mad: &OnCable) -> bool {
    mad.envelope.qp == 0 && smp::m_key(&mad.mad) == OTHER
}

fn expires() -> Test {
    const EARLY: &str = "C14_017_01#not-early";
    const EXPIRED: &str = "C14_017_01#expired";
    const KEPT: &str = "C14_017_01#key-kept";

    test(
        "C14_017_01",
        "C14-017",
        "protection lapses when the lease has run out, and the M_Key stays",
        |run, tester| {
            prepare(run, tester, 1, PERIOD)?;
            violate(run, tester, 1)?;
            let begun = tester.now();
            run.step(
                "2",
                "half of the period: a request with another M_Key is not answered yet",
            );

            tester.sleep(HALF / 2)?;

            // Nobody who shows the key may ask meanwhile: that would stop the timer.
            tester.must_be_silent(run, EARLY, 1, &Smp::get(attribute::NODE_INFO).key(OTHER))?;
            run.step("3", "the period is over: the same request is answered");
            let over = begun + Duration::from_secs(PERIOD.into()) + SPARE;
            let left = over.saturating_sub(tester.now());
            tester.sleep(left)?;
            tester.must_have_status(
                run,
                EXPIRED,
                1,
                &Smp::get(attribute::NODE_INFO).key(OTHER),
                0,
            )?;

            let now = state(tester, 1)?;
            run.check_eq(EXPIRED, "M_KeyProtectBits", now.m_key_protect_bits, 0)?;
            run.step("4", "M_Key is as it was, and writing still needs it");
            run.check_eq(KEPT, "M_Key", now.m_key, DUT)?;
            let set = Smp::set_port_info(0, &tester.port_info_data(1, 0)?);
            tester.must_be_silent(run, KEPT, 1, &set.key(OTHER))?;
            release(tester, 1)
        },
    )
    .covers(&["C14-17", "C14-20"])
    .asserts([EARLY, EXPIRED, KEPT])
    .takes(Duration::from_millis(2500))
    .hurries(SPARE)
    .mutant(Mutant::mad(
        "slow-clock",
        "the lease runs twice as long",
        EXPIRED,
        || MadFaults::default().clock(0.5),
    ))
    .mutant(Mutant::mad(
        "fast-clock",
        "the lease runs out ten times too early",
        EARLY,
        || MadFaults::default().clock(10.0),
    ))
    .mutant(Mutant::mad(
        "key-goes-with-it",
        "the key is gone when the lease has run out",
        KEPT,
        || {
            shows(attribute::PORT_INFO, |node, mad, data| {
                let lapsed = node.port(mad.port).is_some_and(|port| {
                    port.info().m_key == DUT && port.info().m_key_protect_bits == 0
                });
                if lapsed {
                    field("m_key").store(data, 0);
                }
            })
        },
    ))
}

fn not_prolonged() -> Test {
    const RULE: &str = "C14_017_02#not-prolonged";

    test(
        "C14_017_02",
        "C14-017",
        "a second violation does not begin the lease anew",
        |run, tester| {
            prepare(run, tester, 1, PERIOD)?;
            violate(run, tester, 1)?;
            run.step("2", "half of the period, and another violation");
            tester.sleep(HALF)?;
            violate(run, tester, 1)?;
            run.step("3", "the other half: M_KeyProtectBits is 0");
            tester.sleep(HALF + SPARE)?;
            let now = state(tester, 1)?;
            run.check_eq(RULE, "M_KeyProtectBits", now.m_key_protect_bits, 0)?;
            release(tester, 1)
        },
    )
    .covers(&["C14-17", "C14-20"])
    .asserts([RULE])
    .takes(Duration::from_millis(1400))
    .hurries(SPARE)
    .mutant(Mutant::mad(
        "begins-with-the-last",
        "the lease begins with the last violation",
        RULE,
        || {
            let first = Rc::new(Cell::new(true));
            MadFaults::default().rx_drop(move |_, mad| is_wrong(mad) && first.replace(false))
        },
    ))
}

fn stopped(id: &'static str, asked: u8) -> Test {
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        prepare(run, tester, 1, PERIOD)?;
        let request = match asked {
            method::GET => Smp::get(attribute::NODE_INFO),
            _ => Smp::set_port_info(0, &tester.port_info_data(1, 0)?),
        };

        violate(run, tester, 1)?;
        run.step("2", "half of the period");
        tester.sleep(HALF)?;
        run.step(
            "3",
            format!("method {asked:#x} with the device's M_Key stops the timer"),
        );

        let sent = tester.send_mad(1, &request)?;
        run.step("4", "ReceiveMad");
        let answer = tester.receive_mad(1, &sent)?;
        run.check(
            STOPPED,
            answer.is_some_and(|answer| answer.status() == 0),
            || format!("the answer is {answer:?}"),
        )?;

        run.step("5", "more than the whole period");
        tester.sleep(3 * HALF)?;
        run.step("6", "M_KeyProtectBits is as it was");
        let now = state(tester, 1)?;
        run.check_eq(STOPPED, "M_KeyProtectBits", now.m_key_protect_bits, LEVEL)?;
        release(tester, 1)
    };

    test(
        id,
        "C14-017",
        "a request with the M_Key stops the lease",
        body,
    )
    .covers(&["C14-17", "C14-19"])
    .asserts([STOPPED])
    .takes(Duration::from_millis(2200))
    .hurries(HALF)
    .mutant(Mutant::mad(
        "runs-on",
        "the lease runs on whoever asks",
        STOPPED,
        move || {
            // Behind the request that would stop it comes another violation.
            let violated = Rc::new(Cell::new(false));
            MadFaults::default().rx(move |_, mad| {
                let knows = mad.envelope.qp == 0
                    && smp::m_key(&mad.mad) == DUT
                    && mad.header().method == asked;
                if is_wrong(&mad) {
                    violated.set(true);
                }
                if !(knows && violated.get()) {
                    return vec![mad];
                }
                let mut wrong = mad;
                smp::set_m_key(&mut wrong.mad, OTHER);
                vec![mad, wrong]
            })
        },
    ))
}

fn zero() -> Test {
    test(
        "C14_017_05",
        "C14-017",
        "with M_KeyLeasePeriod zero protection is for ever",
        |run, tester| {
            prepare(run, tester, 1, 0)?;
            violate(run, tester, 1)?;
            run.step("2", "a long time");
            let long = tester.rig().for_ever();
            tester.sleep(long)?;
            run.step(
                "3",
                "SubnGet(PortInfo) with the device's M_Key: M_KeyProtectBits is as it was",
            );
            let now = state(tester, 1)?;
            run.check_eq(NEVER, "M_KeyProtectBits", now.m_key_protect_bits, LEVEL)?;
            release(tester, 1)
        },
    )
    .covers(&["C14-21"])
    .asserts([NEVER])
    .takes(Duration::from_secs(3))
    .mutant(Mutant::mad(
        "zero-is-soon",
        "a period of zero is one of a second",
        NEVER,
        || {
            takes(attribute::PORT_INFO, |_, _, data| {
                if field("m_key").load(data) != 0 {
                    field("m_key_lease_period").store(data, 1);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "zero-is-all-there-is",
        "a period of zero is the longest that there is",
        NEVER,
        || {
            takes(attribute::PORT_INFO, |_, _, data| {
                if field("m_key").load(data) != 0 {
                    field("m_key_lease_period").store(data, 0xffff);
                }
            })
        },
    ))
}

fn of_one_port() -> Test {
    const OWN: &str = "C14_017_06#own";

    test(
        "C14_017_06",
        "C14-017",
        "each port has a lease of its own",
        |run, tester| {
            for port in [1, 2] {
                prepare(run, tester, port, PERIOD)?;
            }
            violate(run, tester, 2)?;
            run.step("2", "more than the whole period");
            tester.sleep(Duration::from_secs(PERIOD.into()) + SPARE)?;
            run.step(
                "3",
                "M_KeyProtectBits of the one port is 0, of the other as it was",
            );

            for (port, due) in [(1, LEVEL), (2, 0)] {
                let now = state(tester, port)?;
                run.check_eq(OWN, "M_KeyProtectBits", now.m_key_protect_bits, due)?;
                release(tester, port)?;
            }

            Ok(())
        },
    )
    .covers(&["C14-17", "C14-20"])
    .asserts([OWN])
    .on_ports(2)
    .takes(Duration::from_millis(1500))
    .hurries(SPARE)
    .mutant(Mutant::mad(
        "one-lease-for-all",
        "a violation at one port begins the lease of all",
        OWN,
        || {
            MadFaults::default().rx(|_, mad| match is_wrong(&mad) {
                true => vec![
                    mad,
                    OnCable {
                        port: 3 - mad.port,
                        ..mad
                    },
                ],
                false => vec![mad],
            })
        },
    ))
}
