//! What a port tells the subnet manager: traps 256, 257, 258 and 144, and what they say (14.2.5.1).

mod keys;
mod m_key;

use super::case::test;
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, Trap, lid_of};
use crate::protocol::Command;
use crate::rig::Envelope;
use crate::run::{Outcome, Run, Stop};
use crate::sim::{MadFaults, OnCable};
use ferroce_wire::smp::{self, attribute, capability, method, node_type, trap};
/// Where in an SMP the details of a notice begin.
const DETAILS: usize = 64 + 10;

pub(super) fn tests() -> Vec<Test> {
    vec![
        m_key::bad_m_key("S14_2_5_1_256_directed", true),
        m_key::bad_m_key("S14_2_5_1_256_lid", false),
        keys::bad_key(trap::BAD_P_KEY),
        keys::bad_key(trap::BAD_Q_KEY),
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
    let received = tester.receive_trap(port, patience)?;
    run.check(
        rule,
        received.is_some_and(|trap| trap.notice.trap_number == number),
        || {
            format!(
                "trap {number} is due, and {:?} comes",
                received.map(|trap| trap.notice)
            )
        },
    )?;
    Ok(received.expect("just checked"))
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

/// A trap on the cable of a port, by a device that has no reason to send it.
pub(super) fn made_up(port: u8, producer: u8, notice: &smp::Notice) -> OnCable {
    let mut mad = Smp::new(method::TRAP, attribute::NOTICE)
        .to_lid(SM_LID)
        .emit(port, 0, 1);
    notice.emit(producer, lid_of(port), smp::data_mut(&mut mad));

    OnCable {
        port,
        envelope: Envelope::smp(lid_of(port), SM_LID),
        mad,
    }
}

fn mute(number: u16) -> MadFaults {
    MadFaults::default().tx_drop(move |_, mad| is_trap(mad, number))
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
                let notified = next(run, tester, 1, SENT, trap::CAPABILITY_CHANGE)?;
                common(run, NOTICE, 1, &notified, 4)?;
                run.step("3", "it shows the CapabilityMask, as PortInfo does");
                let mask = tester.port_info(1, 0)?.capability_mask;
                run.check_eq(
                    MASK,
                    "LIDADDR and CAPABILITYMASK",
                    (notified.u16_at(2), notified.u32_at(6)),
                    (lid_of(1), mask),
                )?;

                run.check_eq(MASK, "IsSM", mask & capability::IS_SM != 0, on)?;
                tester.repress(1, &notified)?;

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
