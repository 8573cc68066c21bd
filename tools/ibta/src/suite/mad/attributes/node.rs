//! What is told of the node and cannot be set: NodeDescription, NodeInfo, VendorDiag.

use super::decided::{NO_ERROR, RESPONSE};
use crate::catalog::{Mutant, Test};
use crate::mad::Smp;
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{shows, status_of};
use ferroce_wire::smp::{NodeInfo, VendorDiag, attribute, method, node_type, status};
use std::collections::BTreeSet;

pub(super) fn node_description() -> Test {
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
    .tried_on_ports(2)
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

pub(super) fn node_info() -> Test {
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
    .tried_on_ports(2)
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

pub(super) fn vendor_diag() -> Test {
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
