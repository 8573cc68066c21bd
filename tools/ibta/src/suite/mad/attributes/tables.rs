//! What a port is given, and each port has its own: GUIDInfo, LedInfo.

use super::decided::{INVALID, NO_ERROR, RESPONSE};
use crate::catalog::{Mutant, Test};
use crate::mad::Smp;
use crate::run::Stop;
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{first_guid_is_written, shows, status_of, takes};
use ferroce_wire::smp::{GuidInfo, LedInfo, NodeInfo, attribute, capability, method, status};
use std::cell::Cell;
use std::rc::Rc;

pub(super) fn guid_info() -> Test {
    const CAP: &str = "v1c14-024.1.1#05.01";
    const TAKEN: &str = "v1c14-024.1.1#05.02";
    const FIXED: &str = "v1c14-024.1.1#05.03";

    test("C14_024_05", "C14-024", "GUIDInfo: the first is the port's own, the others are taken, what exceeds GUIDCap reads as zero", |run, tester| {
        for port in 1..=tester.ports() {
            run.step("1", format!("SubnGet(PortInfo) to port {port}: GUIDCap"));
            let cap = usize::from(tester.port_info(port, 0)?.guid_cap);
            run.check(CAP, cap > 0, || "GUIDCap is 0".to_owned())?;
            run.step("2", "SubnGet(NodeInfo): PortGUID");
            let own = NodeInfo::parse(&tester.data(port, attribute::NODE_INFO, 0)?).port_guid;
            for block in 0..32u32 {
                run.step("3", format!("AttributeModifier {block}: SubnGet, SubnSet with all bits inverted, SubnGet(GUIDInfo)"));
                let get = Smp::get(attribute::GUID_INFO).about(block);
                let answer = tester.must_have_status(run, NO_ERROR, port, &get, 0)?;
                run.check_eq(RESPONSE, "method", answer.header.method, method::GET_RESP)?;
                let before = *answer.data();
                let set = Smp::set(attribute::GUID_INFO, before.map(|byte| !byte)).about(block);
                let answer = tester.must_have_status(run, NO_ERROR, port, &set, 0)?;
                let after = tester.data(port, attribute::GUID_INFO, block)?;
                for data in [answer.data(), &after] {
                    for (entry, guid) in GuidInfo::parse(data).0.into_iter().enumerate() {
                        let at = block as usize * 8 + entry;
                        let (assertion, due) = match at {
                            0 => (FIXED, own),
                            _ if at < cap => (TAKEN, !GuidInfo::parse(&before).0[entry]),
                            _ => (CAP, 0),
                        };
                        run.check_eq(assertion, &format!("GUID {at}"), guid, due)?;
                    }
                }

                tester.good(port, &Smp::set(attribute::GUID_INFO, before).about(block))?;
            }

            run.step("4", "AttributeModifiers beyond all blocks are refused");
            for block in [32, 0xff, 0xffff_ffff] {
                let get = Smp::get(attribute::GUID_INFO).about(block);
                tester.must_have_status(run, INVALID, port, &get, status::INVALID_VALUE)?;
            }
        }

        Ok(())
    })
    .covers(&["C13-24", "C14-24.1.1", "C14-30"])
    .asserts([CAP, TAKEN, FIXED, NO_ERROR, INVALID, RESPONSE])
    .mutant(Mutant::mad("own-guid-can-be-written", "a SubnSet changes the first GUID", FIXED, first_guid_is_written))
    .mutant(Mutant::mad("guids-stay", "a SubnSet changes nothing", TAKEN, || {
        takes(attribute::GUID_INFO, |_, _, data| data.fill(0))
    }))
    .mutant(Mutant::mad("shows-what-is-not-there", "entries beyond GUIDCap are not zero", CAP, || {
        shows(attribute::GUID_INFO, |_, mad, data| {
            if mad.header().modifier == 1 {
                data[63] = 1;
            }
        })
    }))
    .mutant(Mutant::mad("any-block-will-do", "modifiers beyond all blocks have status 0", INVALID, || {
        status_of(attribute::GUID_INFO, 0)
    }))
}

pub(super) fn led_info() -> Test {
    const SUPPORTED: &str = "v1c14-024.1.1#15.01";
    const READ: &str = "v1c14-024.1.1#15.02";
    const TAKEN: &str = "v1c14-024.1.1#15.03";
    const OWN: &str = "C14_024_15#own";

    test(
        "C14_024_15",
        "C14-024",
        "LedInfo: each port's lamp is switched by itself",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step(
                    "1",
                    format!("SubnGet(PortInfo) to port {port}: IsLedInfoSupported"),
                );

                let mask = tester.port_info(port, 0)?.capability_mask;
                if mask & capability::IS_LED_INFO_SUPPORTED == 0 {
                    return Err(Stop::NotApplicable("LedInfo is not supported".to_owned()));
                }

                run.step("1.1", "SubnGet(LedInfo): as it is supported it is there");
                let get = Smp::get(attribute::LED_INFO);
                tester.must_have_status(run, SUPPORTED, port, &get, 0)?;

                for led_mask in [true, false, true, false] {
                    run.step(
                        "2",
                        format!("SubnSet(LedInfo), LedMask {}", u8::from(led_mask)),
                    );

                    let mut data = [0; 64];
                    LedInfo { led_mask }.emit(&mut data);
                    let set = Smp::set(attribute::LED_INFO, data);
                    let answer = tester.must_have_status(run, TAKEN, port, &set, 0)?;
                    run.check_eq(TAKEN, "LedInfo of the answer", *answer.data(), data)?;
                    run.step("3", "SubnGet(LedInfo)");
                    let get = Smp::get(attribute::LED_INFO);
                    let answer = tester.must_have_status(run, READ, port, &get, 0)?;
                    run.check_eq(READ, "LedInfo", *answer.data(), data)?;
                    for other in (1..=tester.ports()).filter(|other| *other != port) {
                        let lamp = LedInfo::parse(&tester.data(other, attribute::LED_INFO, 0)?);
                        run.check(OWN, !lamp.led_mask, || {
                            format!("the lamp of port {other} shines too")
                        })?;
                    }
                }
            }

            tester.has_others(run, OWN)
        },
    )
    .covers(&["C14-24.1.1"])
    .asserts([SUPPORTED, READ, TAKEN, OWN])
    .tried_on_ports(2)
    .mutant(Mutant::mad(
        "promises-a-lamp",
        "IsLedInfoSupported is set, and LedInfo is no attribute of it",
        SUPPORTED,
        || status_of(attribute::LED_INFO, status::UNSUPPORTED_ATTRIBUTE),
    ))
    .mutant(Mutant::mad(
        "lamp-is-stuck",
        "the answer shows the lamp as it was asked for, but nothing is switched",
        READ,
        || {
            let answered = Rc::new(Cell::new(None));
            let asked = answered.clone();
            takes(attribute::LED_INFO, move |_, _, data| {
                asked.set(Some(*data));
                data.fill(0);
            })
            .tx_edit(move |_, mad| {
                if mad.answers(attribute::LED_INFO)
                    && let Some(data) = answered.take()
                {
                    *mad.data_mut() = data;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "one-lamp-for-all",
        "all ports show one lamp",
        OWN,
        || {
            let lamp = Rc::new(Cell::new([0; 64]));
            let switch = lamp.clone();
            takes(attribute::LED_INFO, move |_, _, data| switch.set(*data)).tx_edit(
                move |_, mad| {
                    if mad.answers(attribute::LED_INFO) {
                        *mad.data_mut() = lamp.get();
                    }
                },
            )
        },
    ))
}
