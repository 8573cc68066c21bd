//! SMPs by LID: how they are answered (14.2.1), and to which LIDs a port listens (C7-66).

use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, lid_of};
use crate::rig::Envelope;
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use ferroce_wire::smp::{self, PERMISSIVE_LID, attribute};
use std::time::Duration;

pub(super) fn by_lid() -> Test {
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

pub(super) fn lmc() -> Test {
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
