//! What a port tells the subnet manager: traps 256, 257, 258 and 144, and what they say (14.2.5.1).

use super::case::test;
use super::provoke;
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, Trap, lid_of};
use crate::protocol::Command;
use crate::run::{Outcome, Run, Stop};
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::smp::{self, PERMISSIVE_LID, attribute, capability, method, node_type, trap};

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
    ]
}

/// The next trap, which must come and have this number.
pub(super) fn next(
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

pub(super) fn is_trap(mad: &OnCable, number: u16) -> bool {
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
