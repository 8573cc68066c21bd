//! C14_027: a SubnSet leaves what can only be read as it is, whatever it says there, and takes the
//! rest (C14-27).
//!
//! One component at a time is C14_024_06_CA_01; attributes that cannot be set at all are in
//! C14_003.

use super::case::test;
use super::mutants::{
    answers_to, component, current, field, first_guid_is_written, set_status, takes, writable,
};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run};
use crate::sim::OnCable;
use ferroce_fabric::sma::Node;
use ferroce_wire::bits::{Access, Field};
use ferroce_wire::smp::{Data, GuidInfo, PortInfo, attribute, method, status};

const KEPT: &str = "v1c14-027#01";
const NO_ERROR: &str = "v1c13-024#01";

pub(super) fn tests() -> Vec<Test> {
    vec![
        port_info("zeros", "zero", |_, _| 0),
        port_info("ones", "all ones", |field, _| field.max()),
        port_info("inverted", "inverted", |field, now| now ^ field.max()),
        guid_info(),
    ]
}

/// What is written into a component that has this value now.
type Pattern = fn(&Field, u128) -> u128;

fn read_only() -> impl Iterator<Item = &'static Field> {
    PortInfo::FIELDS
        .iter()
        .filter(|field| field.access == Access::Ro)
}

/// Whether a SubnSet(PortInfo) says something else of CapabilityMask than there is.
fn differs(now: &PortInfo, data: &Data) -> bool {
    let mask = field("capability_mask");
    mask.load(data) != component(now, mask)
}

fn port_info(name: &str, what: &str, pattern: Pattern) -> Test {
    let id = format!("C14_027_PortInfo_{name}");
    let rest = format!("{id}#rest");
    let assertion = rest.clone();
    test(
        id,
        "C14-027",
        format!("SubnSet(PortInfo) whose read-only components are {what}: they stay, and the rest is taken"),
        move |run, tester| port_info_body(run, tester, pattern, &assertion),
    )
    .covers(&["C13-24", "C14-27"])
    .asserts([KEPT.to_owned(), NO_ERROR.to_owned(), rest.clone()])
    .mutant(Mutant::mad(
        "takes-a-capability-mask",
        "a SubnSet changes CapabilityMask",
        KEPT,
        || writable(field("capability_mask")),
    ))
    .mutant(Mutant::mad(
        "refuses-them",
        "a SubnSet with another CapabilityMask than there is has status 7",
        NO_ERROR,
        || {
            takes(attribute::PORT_INFO, |node, mad, data| {
                if differs(&current(node, mad), data) {
                    field("neighbor_mtu").store(data, 0);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "takes-nothing",
        "a SubnSet with another CapabilityMask than there is changes nothing else",
        rest,
        || {
            takes(attribute::PORT_INFO, |node, mad, data| {
                let now = current(node, mad);
                if differs(&now, data) {
                    let limit = field("vl_high_limit");
                    limit.store(data, component(&now, limit));
                }
            })
        },
    ))
}

fn port_info_body(run: &mut Run, tester: &mut Tester<'_>, pattern: Pattern, rest: &str) -> Outcome {
    for port in 1..=tester.ports() {
        for modifier in [0, port] {
            run.step("1", format!("SubnGet(PortInfo) to port {port}"));
            let before = tester.data(port, attribute::PORT_INFO, 0)?;
            run.step(
                "2",
                format!("SubnSet(PortInfo), AttributeModifier {modifier}: other read-only components, and another VLHighLimit"),
            );

            let info = tester.port_info_data(port, 0)?;
            let wanted = info.vl_high_limit ^ 0x55;
            let mut request = Smp::set_port_info(
                modifier,
                &PortInfo {
                    vl_high_limit: wanted,
                    ..info
                },
            );
            for field in read_only() {
                field.store(&mut request.data, pattern(field, field.load(&before)));
            }
            let answer = tester.must_have_status(run, NO_ERROR, port, &request, 0)?;
            run.step(
                "3",
                "SubnGet(PortInfo): the former are as they were, the latter is taken",
            );

            let after = tester.data(port, attribute::PORT_INFO, 0)?;
            for (what, data) in [("the answer", answer.data()), ("a SubnGet", &after)] {
                for field in read_only() {
                    let (seen, due) = (field.load(data), field.load(&before));
                    run.check(KEPT, seen == due, || {
                        format!(
                            "{} of {what} is {seen:#x}, was {due:#x} and is read-only",
                            field.name
                        )
                    })?;
                }
                let limit = PortInfo::parse(data).vl_high_limit;
                run.check_eq(rest, &format!("VLHighLimit of {what}"), limit, wanted)?;
            }

            tester.good(port, &Smp::set_port_info(0, &info))?;
        }
    }

    Ok(())
}

fn guid_info() -> Test {
    const REST: &str = "C14_027_GUIDInfo#rest";

    test(
        "C14_027_GUIDInfo",
        "C14-027",
        "SubnSet(GUIDInfo) with another first GUID: it stays, and the rest is taken",
        |run, tester| {
            for port in 1..=tester.ports() {
                let cap = usize::from(tester.port_info(port, 0)?.guid_cap);
                let before = tester.data(port, attribute::GUID_INFO, 0)?;
                run.step(
                    "1",
                    format!("SubnSet(GUIDInfo) to port {port} with all GUIDs inverted"),
                );

                let wanted = before.map(|byte| !byte);
                let set = Smp::set(attribute::GUID_INFO, wanted);
                let answer = tester.must_have_status(run, NO_ERROR, port, &set, 0)?;
                run.step("2", "SubnGet(GUIDInfo): the first is as it was");
                let after = tester.data(port, attribute::GUID_INFO, 0)?;
                let (own, wanted) = (GuidInfo::parse(&before).0[0], GuidInfo::parse(&wanted).0);
                for data in [answer.data(), &after] {
                    let guids = GuidInfo::parse(data).0;
                    run.check_eq(KEPT, "GUID 0", guids[0], own)?;
                    let last = cap.min(guids.len());
                    if last < 2 {
                        run.not_applicable(REST, format!("GUIDCap is {cap}"));
                        continue;
                    }
                    run.check_eq(REST, "the other GUIDs", &guids[1..last], &wanted[1..last])?;
                }

                tester.good(port, &Smp::set(attribute::GUID_INFO, before))?;
            }

            Ok(())
        },
    )
    .covers(&["C13-24", "C14-27"])
    .asserts([KEPT, NO_ERROR, REST])
    .mutant(Mutant::mad(
        "own-guid-can-be-written",
        "a SubnSet changes the first GUID",
        KEPT,
        first_guid_is_written,
    ))
    .mutant(Mutant::mad(
        "refuses-it",
        "a SubnSet with another first GUID has status 7",
        NO_ERROR,
        || {
            answers_to(has_another_guid, |mad| {
                set_status(mad, status::INVALID_VALUE)
            })
        },
    ))
    .mutant(Mutant::mad(
        "loses-the-rest",
        "a SubnSet with another first GUID sets all others to zero",
        REST,
        || {
            takes(attribute::GUID_INFO, |node, mad, data| {
                if has_another_guid(node, mad) {
                    data.fill(0);
                }
            })
        },
    ))
}

/// A SubnSet(GUIDInfo) that would change the port's own GUID.
fn has_another_guid(node: &Node, mad: &OnCable) -> bool {
    let own = node.port(mad.port).map(|port| port.guids()[0]);
    mad.asks(method::SET, attribute::GUID_INFO)
        && mad.header().modifier == 0
        && own.is_some_and(|own| GuidInfo::parse(mad.data()).0[0] != own)
}
