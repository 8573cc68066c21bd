//! What a port tells the subnet manager: traps 256, 257, 258 and 144, what they say, how often, and until when (14.2.5.1).

use super::mutants::{field, shows, takes};
use super::{provoke, test};
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, Trap, lid_of, timer};
use crate::protocol::Command;
use crate::rig::Envelope;
use crate::run::{Outcome, Run, Stop};
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::smp::{
    self, PERMISSIVE_LID, PKeyBlock, attribute, capability, method, node_type, trap,
};
use std::time::Duration;

const DUT: u64 = 0x1b7a_0256_0000_0001;
const OTHER: u64 = 0x1b7a_0256_0000_0002;
/// Where in an SMP the details of a notice begin.
const DETAILS: usize = 64 + 10;

pub(super) fn tests() -> Vec<Test> {
    vec![
        bad_m_key("S14_2_5_1_256_directed", true),
        bad_m_key("S14_2_5_1_256_lid", false),
        bad_key(trap::BAD_P_KEY),
        bad_key(trap::BAD_Q_KEY),
        capability_change(),
        repeated(),
        repressed_by_its_transaction(),
        to_the_manager(),
        no_switch(),
        counter("p_key_violations", provoke::bad_p_key),
        counter("q_key_violations", provoke::bad_q_key),
        partitions(),
    ]
}

/// The next trap, which must come and have this number.
fn next(
    run: &mut Run,
    tester: &mut Tester<'_>,
    port: u8,
    rule: &str,
    number: u16,
) -> Outcome<Trap> {
    let patience = tester.rig().patience();
    let came = tester.receive_trap(port, patience)?;
    run.check(
        rule,
        came.is_some_and(|trap| trap.notice.trap_number == number),
        || {
            format!(
                "trap {number} is due, and {:?} comes",
                came.map(|trap| trap.notice)
            )
        },
    )?;
    Ok(came.expect("just checked"))
}

/// What all traps of a channel adapter's port have.
fn common(run: &mut Run, rule: &str, port: u8, trap: &Trap, kind: u8) -> Outcome {
    let header = &trap.header;
    run.check_eq(
        rule,
        "class, method, attribute, modifier",
        (
            header.class,
            header.method,
            header.attribute,
            header.modifier,
        ),
        (smp::CLASS_LID, method::TRAP, attribute::NOTICE, 0),
    )?;
    let notice = &trap.notice;
    run.check_eq(
        rule,
        "IsGeneric, type, producer, issuer LID",
        (
            notice.is_generic,
            notice.notice_type,
            notice.producer_type,
            notice.issuer_lid,
        ),
        (true, kind, node_type::CHANNEL_ADAPTER.into(), lid_of(port)),
    )?;
    let ends = (trap.envelope.slid, trap.envelope.dlid);
    run.check_eq(rule, "SLID and DLID", ends, (lid_of(port), SM_LID))
}

/// Changes bytes of the traps with this number, counted in the details.
fn tells(number: u16, at: usize, value: u8) -> MadFaults {
    MadFaults::default().tx_edit(move |_, mad| {
        if is_trap(mad, number) {
            mad.mad[DETAILS + at] = value;
        }
    })
}

fn is_trap(mad: &OnCable, number: u16) -> bool {
    mad.asks(method::TRAP, attribute::NOTICE)
        && smp::NoticeHeader::parse(mad.data()).trap_number == number
}

fn mute(number: u16) -> MadFaults {
    MadFaults::default().tx_drop(move |_, mad| is_trap(mad, number))
}

fn bad_m_key(id: &'static str, directed: bool) -> Test {
    const SENT: &str = "s14.2.5.1#256.sent";
    const NOTICE: &str = "s14.2.5.1#256.notice";
    const WHO: &str = "s14.2.5.1#256.who";
    const WHAT: &str = "s14.2.5.1#256.what";
    const ROUTE: &str = "s14.2.5.1#256.route";
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            tester.set_m_key(port, DUT, 2)?;
            let mut request = Smp::set(attribute::P_KEY_TABLE, [0; 64])
                .about(3)
                .key(OTHER);
            if !directed {
                request = request.to_lid(lid_of(port));
            }
            run.step(
                "1",
                format!("SubnSet(P_KeyTable), block 3, with another M_Key, to port {port}"),
            );
            tester.send_mad(port, &request)?;
            run.step("2", "trap 256 comes");
            let trap = next(run, tester, port, SENT, trap::BAD_M_KEY)?;
            common(run, NOTICE, port, &trap, 2)?;
            run.step("3", "it says who");
            let (lid, route) = if directed {
                (PERMISSIVE_LID, PERMISSIVE_LID)
            } else {
                (SM_LID, 0)
            };
            run.check_eq(
                WHO,
                "LIDADDR and DRSLID",
                (trap.u16_at(2), trap.u16_at(4)),
                (lid, route),
            )?;
            run.step("4", "it says what");
            let seen = (
                trap.details[6],
                trap.u16_at(8),
                trap.u32_at(10),
                trap.u64_at(14),
            );
            run.check_eq(
                WHAT,
                "method, attribute, modifier, M_Key",
                seen,
                (method::SET, attribute::P_KEY_TABLE, 3, OTHER),
            )?;
            run.step("5", "it says by which way");
            let due = if directed { (0x81, port) } else { (0, 0) };
            run.check_eq(
                ROUTE,
                "DRNotice and hop count, first port of the return path",
                (trap.details[23], trap.details[24]),
                due,
            )?;
            tester.repress(port, &trap)?;
            tester.set_m_key(port, 0, 0)?;
        }
        Ok(())
    };
    let way = if directed {
        "directed-route"
    } else {
        "LID-routed"
    };
    test(
        id,
        "14.2.5.1",
        format!("trap 256 tells of a wrong M_Key in a {way} SMP"),
        body,
    )
    .covers(&["14.2.5.1"])
    .asserts([SENT, NOTICE, WHO, WHAT, ROUTE])
    .mutant(Mutant::mad(
        "keeps-it-secret",
        "no trap is sent",
        SENT,
        || mute(trap::BAD_M_KEY),
    ))
    .mutant(Mutant::mad(
        "shows-no-key",
        "the M_Key in the notice is not the one that was shown",
        WHAT,
        || tells(trap::BAD_M_KEY, 21, 0xee),
    ))
    .mutant(Mutant::mad(
        "wrong-witness",
        "the LID in the notice is not that of the requester",
        WHO,
        || tells(trap::BAD_M_KEY, 3, 0x33),
    ))
    .mutant(Mutant::mad(
        "wrong-way",
        "the hop count in the notice is wrong",
        ROUTE,
        || tells(trap::BAD_M_KEY, 23, 0x82),
    ))
    .mutant(Mutant::mad(
        "anonymous",
        "the issuer's LID is missing",
        NOTICE,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if is_trap(mad, trap::BAD_M_KEY) {
                    mad.mad[64 + 6..64 + 8].fill(0);
                }
            })
        },
    ))
}

fn bad_key(number: u16) -> Test {
    let id = format!("S14_2_5_1_{number}");
    let rule = |what: &str| format!("s14.2.5.1#{number}.{what}");
    let (sent, notice, who, key, dropped) = (
        rule("sent"),
        rule("notice"),
        rule("who"),
        rule("key"),
        rule("dropped"),
    );
    let rules = [&sent, &notice, &who, &key, &dropped].map(Clone::clone);
    let (caught_sent, caught_key, caught_who, caught_drop) =
        (sent.clone(), key.clone(), who.clone(), dropped.clone());
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
            let told = next(run, tester, port, &sent, number)?;
            common(run, &notice, port, &told, 2)?;
            run.step("3", "it says from where and to where");
            let seen = (
                told.u16_at(2),
                told.u16_at(4),
                told.details[10] >> 4,
                told.u32_at(10) & 0xff_ffff,
                told.u32_at(14) & 0xff_ffff,
            );
            run.check_eq(
                &who,
                "LIDADDR1, LIDADDR2, SL, QP1, QP2",
                seen,
                (SM_LID, lid_of(port), 5, 0x12_3456, 1),
            )?;
            run.step("4", "it says with which key");
            let due = match number {
                trap::BAD_P_KEY => provoke::BAD_P_KEY.into(),
                _ => provoke::BAD_Q_KEY,
            };
            run.check_eq(&key, "KEY", told.u32_at(6), due)?;
            tester.repress(port, &told)?;
            run.step("5", "the MAD itself is not answered");
            tester.verify_no_receive_mad(run, &dropped, port, &provoked)?;
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
    test(
        id,
        "14.2.5.1",
        format!("trap {number} tells of a wrong {name}"),
        body,
    )
    .covers(&["14.2.5.1"])
    .asserts(rules)
    .mutant(Mutant::mad(
        "keeps-it-secret",
        "no trap is sent",
        caught_sent,
        move || mute(number),
    ))
    .mutant(Mutant::mad(
        "shows-another-key",
        "the key in the notice is wrong",
        caught_key,
        move || tells(number, 9, 0),
    ))
    .mutant(Mutant::mad(
        "shows-another-queue-pair",
        "the queue pair in the notice is wrong",
        caught_who,
        move || tells(number, 13, 0),
    ))
    .mutant(Mutant::mad(
        "tells-and-takes-it",
        "the MAD is answered all the same",
        caught_drop,
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
    ))
}

fn capability_change() -> Test {
    const SENT: &str = "s14.2.5.1#144.sent";
    const NOTICE: &str = "s14.2.5.1#144.notice";
    const MASK: &str = "s14.2.5.1#144.mask";
    test(
        "S14_2_5_1_144",
        "14.2.5.1",
        "trap 144 tells that a subnet manager has come or gone behind a port",
        |run, tester| {
            for on in [true, false] {
                run.step("1", format!("a subnet manager behind port 1: {on}"));
                if tester.command(&Command::IsSm { port: 1, on })?.is_none() {
                    return Err(Stop::NotApplicable(
                        "the device side cannot work as a subnet manager".to_owned(),
                    ));
                }
                run.step("2", "trap 144 comes");
                let told = next(run, tester, 1, SENT, trap::CAPABILITY_CHANGE)?;
                common(run, NOTICE, 1, &told, 4)?;
                run.step("3", "it shows the CapabilityMask, as PortInfo does");
                let mask = tester.port_info(1, 0)?.capability_mask;
                run.check_eq(
                    MASK,
                    "LIDADDR and CAPABILITYMASK",
                    (told.u16_at(2), told.u32_at(6)),
                    (lid_of(1), mask),
                )?;
                run.check_eq(MASK, "IsSM", mask & capability::IS_SM != 0, on)?;
                tester.repress(1, &told)?;
                // It may have been sent again meanwhile.
                tester.hear_all_traps(1)?;
            }
            Ok(())
        },
    )
    .covers(&["14.2.5.1"])
    .asserts([SENT, NOTICE, MASK])
    .mutant(Mutant::mad(
        "keeps-it-secret",
        "no trap is sent",
        SENT,
        || mute(trap::CAPABILITY_CHANGE),
    ))
    .mutant(Mutant::mad(
        "old-news",
        "the trap shows the CapabilityMask as it was",
        MASK,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if is_trap(mad, trap::CAPABILITY_CHANGE) {
                    mad.mad[DETAILS + 9] ^= capability::IS_SM as u8;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "a-matter-of-security",
        "the notice has the wrong type",
        NOTICE,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if is_trap(mad, trap::CAPABILITY_CHANGE) {
                    mad.mad[64] = 0x82;
                }
            })
        },
    ))
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
            run.check(SLOWLY, three >= due.mul_f64(0.7), || {
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
    .covers(&["14.2.5.1"])
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
    .covers(&["14.2.5.1"])
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
                let told = next(run, tester, 1, LID, trap::BAD_P_KEY)?;
                let to: Envelope = told.envelope;
                run.check_eq(LID, "DLID and SL", (to.dlid, to.sl), (lid, sl))?;
                tester.repress(1, &told)?;
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
            tester.check_ports(2)?;
            for up in [false, true] {
                run.step("1", format!("the cable of port 2 is plugged in: {up}"));
                tester.rig().link(2, up)?;
                let states: &[u8] = if up { &[2, 3, 4] } else { &[1] };
                tester.wait_for_state(1, 2, states)?;
                run.step("2", "port 1 sends no trap 128");
                let came = tester.receive_trap(1, Duration::from_millis(200))?;
                let is_128 = came.is_some_and(|told| told.notice.trap_number == trap::LINK_STATE);
                run.check(RULE, !is_128, || format!("{came:?}"))?;
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
                let mut mad = Smp::new(method::TRAP, attribute::NOTICE)
                    .to_lid(SM_LID)
                    .emit(1, 0, 1);
                smp::Notice::LinkState(lid_of(1)).emit(
                    node_type::SWITCH,
                    lid_of(1),
                    smp::data_mut(&mut mad),
                );
                vec![OnCable {
                    port: 1,
                    envelope: Envelope::smp(lid_of(1), SM_LID),
                    mad,
                }]
            })
        },
    ))
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
    .covers(&["10.9.3"])
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
