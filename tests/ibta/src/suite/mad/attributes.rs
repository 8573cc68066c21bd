//! C14_024_02 to 15: every attribute of subnet management but PortInfo (C14-24.1.1, C14-31).

use super::mutants::{shows, status_of, takes};
use super::test;
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester, attribute_name};
use crate::run::{Outcome, Run, Stop};
use crate::sim::MadFaults;
use ferroce_wire::smp::{
    GuidInfo, LedInfo, NodeInfo, PKeyBlock, VendorDiag, attribute, capability, method, node_type,
    status,
};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

const NO_ERROR: &str = "v1c13-024#01";
const INVALID: &str = "v1c13-024#07";
const RESPONSE: &str = "v1c14-030#01";
const UNSUPPORTED: &str = "v1c14-031#01";

pub(super) fn tests() -> Vec<Test> {
    let mut tests = vec![
        node_description(),
        node_info(),
        guid_info(),
        p_key_table(),
        sm_info(),
        vendor_diag(),
        led_info(),
    ];
    let not_here = [
        ("C14_024_01", attribute::NOTICE),
        ("C14_024_04", attribute::SWITCH_INFO),
        ("C14_024_10", attribute::LINEAR_FORWARDING),
        ("C14_024_11", attribute::RANDOM_FORWARDING),
        ("C14_024_12", attribute::MULTICAST_FORWARDING),
    ];
    tests.extend(not_here.map(|(id, attribute)| unsupported(id, attribute)));
    tests
}

fn node_description() -> Test {
    const TEXT: &str = "C14_024_02#text";
    const SAME: &str = "C14_024_02#same";
    test(
        "C14_024_02",
        "C14-024",
        "NodeDescription is text, and the same by every port",
        |run, tester| {
            let first = tester.data(1, attribute::NODE_DESCRIPTION, 0)?;
            for port in 1..=tester.ports() {
                run.step("1", format!("SubnGet(NodeDescription) to port {port}"));
                let request = Smp::get(attribute::NODE_DESCRIPTION);
                let answer = tester.must_have_status(run, NO_ERROR, port, &request, 0)?;
                let data = answer.data();
                let end = data
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(data.len());
                let (text, rest) = data.split_at(end);
                run.step("2", "UTF-8, and zeros behind it");
                let good = std::str::from_utf8(text).is_ok() && rest.iter().all(|byte| *byte == 0);
                run.check(TEXT, good, || format!("{data:02x?} is no text"))?;
                run.check_eq(SAME, "NodeDescription", *data, first)?;
            }
            Ok(())
        },
    )
    .covers(&["C14-24.1.1"])
    .asserts([TEXT, SAME, NO_ERROR])
    .on_ports(2)
    .mutant(Mutant::mad(
        "rubbish-behind-the-text",
        "the bytes behind the text are not zero",
        TEXT,
        || shows(attribute::NODE_DESCRIPTION, |_, _, data| data[63] = 0xff),
    ))
    .mutant(Mutant::mad(
        "a-name-for-each-port",
        "each port has a name of its own",
        SAME,
        || {
            shows(attribute::NODE_DESCRIPTION, |_, mad, data| {
                data[0] = b'0' + mad.port
            })
        },
    ))
}

fn node_info() -> Test {
    const NODE: &str = "C14_024_03#node";
    const PORT: &str = "C14_024_03#port";
    test("C14_024_03", "C14-024", "NodeInfo: what belongs to the node is the same by every port, what belongs to the port is not", |run, tester| {
        let first = NodeInfo::parse(&tester.data(1, attribute::NODE_INFO, 0)?);
        let mut guids = BTreeSet::new();
        for port in 1..=tester.ports() {
            run.step("1", format!("SubnGet(NodeInfo) to port {port}"));
            let request = Smp::get(attribute::NODE_INFO);
            let answer = tester.must_have_status(run, NO_ERROR, port, &request, 0)?;
            run.check_eq(RESPONSE, "method", answer.header.method, method::GET_RESP)?;
            let info = NodeInfo::parse(answer.data());
            run.step("2", "versions, type, number of ports, GUIDs of node and system, tables, device");
            run.check_eq(NODE, "BaseVersion and ClassVersion", (info.base_version, info.class_version), (1, 1))?;
            run.check_eq(NODE, "NodeType", info.node_type, node_type::CHANNEL_ADAPTER)?;
            let whole = info.num_ports >= tester.ports() && info.node_guid != 0 && info.partition_cap != 0;
            run.check(NODE, whole, || format!("{info:?} has too few ports, no NodeGUID or no partitions"))?;
            let node = NodeInfo { port_guid: first.port_guid, local_port_num: first.local_port_num, ..info };
            run.check_eq(NODE, "what belongs to the node", node, first)?;
            run.step("3", "LocalPortNum, PortGUID");
            run.check_eq(PORT, "LocalPortNum", info.local_port_num, port)?;
            let own = info.port_guid != 0 && guids.insert(info.port_guid);
            run.check(PORT, own, || format!("PortGUID {:#x} is none, or another port's", info.port_guid))?;
        }
        Ok(())
    })
    .covers(&["C14-24.1.1", "C14-30"])
    .asserts([NODE, PORT, NO_ERROR, RESPONSE])
    .on_ports(2)
    .mutant(Mutant::mad("is-a-switch", "NodeType says switch", NODE, || {
        shows(attribute::NODE_INFO, |_, _, data| data[2] = node_type::SWITCH)
    }))
    .mutant(Mutant::mad("all-ports-are-number-one", "LocalPortNum is 1 by every port", PORT, || {
        shows(attribute::NODE_INFO, |_, _, data| data[36] = 1)
    }))
    .mutant(Mutant::mad("one-guid-for-all-ports", "PortGUID is the same by every port", PORT, || {
        shows(attribute::NODE_INFO, |node, _, data| {
            let guid = node.port(1).map_or(0, |port| port.guids()[0]);
            data[20..28].copy_from_slice(&guid.to_be_bytes());
        })
    }))
}

fn guid_info() -> Test {
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
    .mutant(Mutant::mad("own-guid-can-be-written", "a SubnSet changes the first GUID", FIXED, || {
        let written = Rc::new(Cell::new(None));
        let shown = written.clone();
        takes(attribute::GUID_INFO, move |_, mad, data| {
            if mad.header().modifier == 0 {
                written.set(Some([data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7]]));
            }
        })
        .tx_edit(move |_, mad| {
            if mad.answers(attribute::GUID_INFO) && mad.header().modifier == 0 && let Some(guid) = shown.get() {
                mad.data_mut()[..8].copy_from_slice(&guid);
            }
        })
    }))
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

fn p_key_table() -> Test {
    const TAKEN: &str = "C14_024_07#taken";
    const OWN: &str = "C14_024_07#own";
    const CAP: &str = "C14_024_07#cap";
    test(
        "C14_024_07",
        "C14-024",
        "P_KeyTable: entries up to PartitionCap are taken, at each port its own",
        |run, tester| {
            let cap = usize::from(
                NodeInfo::parse(&tester.data(1, attribute::NODE_INFO, 0)?).partition_cap,
            );
            let blocks = cap.div_ceil(32) as u32;
            for port in 1..=tester.ports() {
                let others: Vec<u8> = (1..=tester.ports())
                    .filter(|other| *other != port)
                    .collect();
                for block in 0..blocks {
                    run.step(
                        "1",
                        format!("SubnSet(P_KeyTable) to port {port}, block {block}"),
                    );
                    let get = Smp::get(attribute::P_KEY_TABLE).about(block);
                    let before = *tester
                        .must_have_status(run, NO_ERROR, port, &get, 0)?
                        .data();
                    let mut elsewhere = Vec::new();
                    for other in &others {
                        elsewhere.push(tester.data(*other, attribute::P_KEY_TABLE, block)?);
                    }
                    let mut keys = PKeyBlock::parse(&before).0;
                    // The first of all stays, so that the tester can still be heard.
                    for (entry, key) in keys.iter_mut().enumerate().skip(usize::from(block == 0)) {
                        *key = 0x8100 | (block as u16) << 5 | entry as u16;
                    }
                    let mut wanted = [0; 64];
                    PKeyBlock(keys).emit(&mut wanted);
                    let set = Smp::set(attribute::P_KEY_TABLE, wanted).about(block);
                    let answer = tester.must_have_status(run, NO_ERROR, port, &set, 0)?;
                    run.check_eq(RESPONSE, "method", answer.header.method, method::GET_RESP)?;
                    let after = tester.data(port, attribute::P_KEY_TABLE, block)?;
                    run.step(
                        "2",
                        "the answer and a SubnGet show it; beyond PartitionCap they show zero",
                    );
                    for data in [answer.data(), &after] {
                        for (entry, key) in PKeyBlock::parse(data).0.into_iter().enumerate() {
                            let at = block as usize * 32 + entry;
                            let (assertion, due) = if at < cap {
                                (TAKEN, keys[entry])
                            } else {
                                (CAP, 0)
                            };
                            run.check_eq(assertion, &format!("P_Key {at}"), key, due)?;
                        }
                    }
                    run.step("3", "the other ports' tables are as they were");
                    for (other, before) in others.iter().zip(&elsewhere) {
                        let now = tester.data(*other, attribute::P_KEY_TABLE, block)?;
                        run.check(OWN, now == *before, || {
                            format!("the table of port {other} has changed too")
                        })?;
                    }
                    tester.good(port, &Smp::set(attribute::P_KEY_TABLE, before).about(block))?;
                }
                run.step("4", "blocks beyond PartitionCap are refused");
                let beyond = Smp::get(attribute::P_KEY_TABLE).about(blocks);
                let answer = tester.must_answer(run, CAP, port, &beyond)?;
                run.check_eq(
                    CAP,
                    "MADHeader:Status",
                    answer.status(),
                    status::INVALID_VALUE,
                )?;
            }
            Ok(())
        },
    )
    .covers(&["C14-24.1.1", "C14-30"])
    .asserts([TAKEN, OWN, CAP, NO_ERROR, RESPONSE])
    .on_ports(2)
    .mutant(Mutant::mad(
        "keys-stay",
        "a SubnSet changes nothing but the first entries",
        TAKEN,
        || takes(attribute::P_KEY_TABLE, |_, _, data| data[2..].fill(0)),
    ))
    .mutant(Mutant::mad(
        "one-table-for-all-ports",
        "what is set at one port is shown by all",
        OWN,
        || {
            let written: Rc<Cell<Option<[u8; 64]>>> = Rc::default();
            let shown = written.clone();
            takes(attribute::P_KEY_TABLE, move |_, _, data| {
                written.set(Some(*data))
            })
            .tx_edit(move |_, mad| {
                if mad.answers(attribute::P_KEY_TABLE)
                    && mad.port == 2
                    && let Some(data) = shown.get()
                {
                    *mad.data_mut() = data;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "one-block-more",
        "the block beyond the last is answered well",
        CAP,
        || status_of(attribute::P_KEY_TABLE, 0),
    ))
}

fn sm_info() -> Test {
    const MASK: &str = "v1c14-024.1.1#13.01";
    const DISABLED: &str = "v1c14-070#03";
    test(
        "C14_024_13_3",
        "C14-024",
        "SMInfo where no subnet manager is",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step("1", format!("SubnGet(PortInfo) to port {port}"));
                let mask = tester.port_info(port, 0)?.capability_mask;
                let (is_sm, disabled) = (
                    mask & capability::IS_SM != 0,
                    mask & capability::IS_SM_DISABLED != 0,
                );
                run.step("3", "IsSMDisabled is not set together with IsSM");
                run.check(DISABLED, !(is_sm && disabled), || {
                    format!("CapabilityMask is {mask:#x}")
                })?;
                run.step("4", "IsSM is 0");
                if is_sm {
                    return Err(Stop::NotApplicable(format!(
                        "a subnet manager works behind port {port}"
                    )));
                }
                run.check(MASK, !is_sm, String::new)?;
                run.step(
                    "5",
                    "SubnGet(SMInfo), SubnSet(SMInfo): the attribute is not supported",
                );
                for request in [
                    Smp::get(attribute::SM_INFO),
                    Smp::set(attribute::SM_INFO, [0; 64]),
                ] {
                    tester.must_have_status(
                        run,
                        UNSUPPORTED,
                        port,
                        &request,
                        status::UNSUPPORTED_ATTRIBUTE,
                    )?;
                }
            }
            Ok(())
        },
    )
    .covers(&["C14-24.1.1", "C14-31", "C14-70"])
    .asserts([MASK, DISABLED, UNSUPPORTED])
    .mutant(Mutant::mad(
        "has-a-ghost-of-a-manager",
        "SMInfo is answered with status 0",
        UNSUPPORTED,
        || status_of(attribute::SM_INFO, 0),
    ))
    .mutant(Mutant::mad(
        "works-and-is-disabled",
        "IsSM and IsSMDisabled are both set",
        DISABLED,
        || {
            MadFaults::default().config(|config| {
                config.capability_mask |= capability::IS_SM | capability::IS_SM_DISABLED
            })
        },
    ))
}

fn vendor_diag() -> Test {
    const ENDS: &str = "C14_024_14#ends";
    test(
        "C14_024_14",
        "C14-024",
        "VendorDiag: the chain of NextIndex ends",
        |run, tester| {
            for port in 1..=tester.ports() {
                let mut seen = BTreeSet::from([0]);
                let mut index = 0;
                loop {
                    run.step(
                        "1",
                        format!("SubnGet(VendorDiag) to port {port}, AttributeModifier {index}"),
                    );
                    let request = Smp::get(attribute::VENDOR_DIAG).about(index.into());
                    let answer = tester.must_have_status(run, NO_ERROR, port, &request, 0)?;
                    index = VendorDiag::parse(answer.data()).next_index;
                    run.step("2", format!("NextIndex is {index}"));
                    if index == 0 {
                        break;
                    }
                    run.check(ENDS, seen.insert(index), || {
                        format!("NextIndex comes back to {index}")
                    })?;
                }
                run.check(ENDS, true, String::new)?;
            }
            Ok(())
        },
    )
    .covers(&["C14-24.1.1"])
    .asserts([ENDS, NO_ERROR])
    .mutant(Mutant::mad(
        "goes-round-in-circles",
        "NextIndex is 1 for ever",
        ENDS,
        || {
            MadFaults::default()
                .rx_edit(|_, mad| {
                    if mad.asks(method::GET, attribute::VENDOR_DIAG) {
                        mad.edit_header(|header| header.modifier = 0);
                    }
                })
                .tx_edit(|_, mad| {
                    if mad.answers(attribute::VENDOR_DIAG) {
                        mad.data_mut()[1] = 1;
                    }
                })
        },
    ))
    .mutant(Mutant::mad(
        "does-not-know-it",
        "VendorDiag is refused",
        NO_ERROR,
        || status_of(attribute::VENDOR_DIAG, status::UNSUPPORTED_ATTRIBUTE),
    ))
}

fn led_info() -> Test {
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
                run.check(SUPPORTED, true, String::new)?;
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
            Ok(())
        },
    )
    .covers(&["C14-24.1.1"])
    .asserts([SUPPORTED, READ, TAKEN, OWN])
    .on_ports(2)
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

/// An attribute that a channel adapter like this does not have.
fn unsupported(id: &'static str, number: u16) -> Test {
    let name = attribute_name(number);
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            let mask = tester.port_info(port, 0)?.capability_mask;
            if number == attribute::NOTICE && mask & capability::IS_NOTICE_SUPPORTED != 0 {
                return Err(Stop::NotApplicable("Notice is supported".to_owned()));
            }
            for request in [Smp::get(number), Smp::set(number, [0; 64])] {
                run.step(
                    "1",
                    format!(
                        "method {:#x} of the attribute, to port {port}",
                        request.method
                    ),
                );
                tester.must_have_status(
                    run,
                    UNSUPPORTED,
                    port,
                    &request,
                    status::UNSUPPORTED_ATTRIBUTE,
                )?;
            }
        }
        Ok(())
    };
    test(
        id,
        "C14-024",
        format!("{name} is not an attribute of this channel adapter"),
        body,
    )
    .covers(&["C14-24.1.1", "C14-31"])
    .asserts([UNSUPPORTED])
    .mutant(Mutant::mad(
        "answers-it",
        "it is answered with status 0",
        UNSUPPORTED,
        move || status_of(number, 0),
    ))
    .mutant(Mutant::mad(
        "blames-the-method",
        "the status says that the method is not supported",
        UNSUPPORTED,
        move || status_of(number, status::UNSUPPORTED_METHOD),
    ))
    .mutant(Mutant::mad(
        "says-nothing",
        "there is no answer",
        UNSUPPORTED,
        move || super::mutants::silent_to(move |mad| mad.header().attribute == number),
    ))
}
