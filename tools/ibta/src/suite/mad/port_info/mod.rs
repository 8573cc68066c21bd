//! C14_024_06_CA_01 to 03: the components of PortInfo at the port that receives the request
//! (C14-24.1.1).
//!
//! Parts 2 and 3 are a test for each read-write component, so that a report says which one is
//! wrong. Violation counters, states and ClientReregister have tests of their own.

mod values;

use super::case::test;
use super::mutants::{self, field, ignores, writable};
use crate::catalog::{Mutant, Test};
use crate::mad::{Answer, Smp, Tester};
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use ferroce_wire::bits::{Access, Field};
use ferroce_wire::smp::{NodeInfo, PortInfo, attribute, method, status};
use values::{ILLEGAL_VALUES, Illegal, LEGAL, Legal};

const REQUIRED: &str = "v1c14-024.1.1#06.01";
const ANSWERED: &str = "v1c14-024.1.1#06.02";
const ILLEGAL: &str = "v1c14-024.1.1#06.04";
const OWN_PORT: &str = "v1c14-024.1.1#06.05";
const PORT_ZERO: &str = "v1c14-024.1.1#06.06";
const NO_ERROR: &str = "v1c13-024#01";
const INVALID: &str = "v1c13-024#07";
const READ_ONLY: &str = "v1c14-027#01";
const RESPONSE: &str = "v1c14-030#01";

pub(super) fn tests() -> Vec<Test> {
    let mut tests = vec![read_only()];
    tests.extend(LEGAL.iter().map(|(name, values)| legal(name, *values)));
    tests.extend(
        ILLEGAL_VALUES
            .iter()
            .map(|(name, values)| illegal(name, *values)),
    );
    tests
}

fn read_only() -> Test {
    test(
        "C14_024_06_CA_01",
        "C14-024",
        "PortInfo of a channel adapter, part 1: read-only components stay, ports that do not exist are refused",
        read_only_body,
    )
    .covers(&["C13-24", "C14-24.1.1", "C14-27", "C14-30"])
    .asserts([
        REQUIRED, ANSWERED, OWN_PORT, PORT_ZERO, READ_ONLY, NO_ERROR, INVALID, RESPONSE,
    ])
    .mutant(Mutant::mad(
        "capability-mask-can-be-written",
        "a SubnSet changes CapabilityMask",
        PORT_ZERO,
        || writable(field("capability_mask")),
    ))
    .mutant(Mutant::mad(
        "another-number",
        "LocalPortNum is 9 at every port",
        REQUIRED,
        || mutants::shows_as("local_port_num", 9),
    ))
    .mutant(Mutant::mad(
        "every-port-exists",
        "a port that does not exist is answered as port 0",
        INVALID,
        || {
            MadFaults::default().rx_edit(|node, mad| {
                let ports = u32::from(node.config().ports);
                if mad.header().attribute == attribute::PORT_INFO && mad.header().modifier > ports {
                    mad.edit_header(|header| header.modifier = 0);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "own-number-is-another-port",
        "about its own number a port answers with another LID than about 0",
        OWN_PORT,
        || {
            mutants::shows(attribute::PORT_INFO, |_, mad, data| {
                if mad.header().modifier != 0 {
                    field("lid").store(data, 0x77);
                }
            })
        },
    ))
}

fn read_only_body(run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
    let ports = NodeInfo::parse(&tester.data(1, attribute::NODE_INFO, 0)?).num_ports;
    for port in 1..=tester.ports() {
        run.step(
            "1",
            format!("SubnGet(PortInfo) to port {port}, AttributeModifier 0"),
        );

        let zero = get(run, tester, port, 0)?;
        run.step("2", "the same with its own number: the same values");
        let own = get(run, tester, port, port)?;
        run.check_eq(OWN_PORT, "PortInfo", own.port_info(), zero.port_info())?;
        run.check_eq(
            REQUIRED,
            "LocalPortNum",
            own.port_info().local_port_num,
            port,
        )?;

        for field in PortInfo::FIELDS
            .iter()
            .filter(|field| field.access == Access::Ro)
        {
            run.step(
                "3",
                format!("SubnSet(PortInfo) with another {}", field.name),
            );

            for modifier in [0, port] {
                let info = tester.port_info_data(port, 0)?;
                let mut request = Smp::set_port_info(modifier, &info);
                let before = field.load(&request.data);
                field.store(&mut request.data, before ^ field.max());
                let answer = tester.must_have_status(run, NO_ERROR, port, &request, 0)?;
                let after = tester.data(port, attribute::PORT_INFO, 0)?;
                for (what, data) in [("the answer", answer.data()), ("a SubnGet", &after)] {
                    let seen = field.load(data);
                    let rule = if modifier == 0 { PORT_ZERO } else { READ_ONLY };
                    run.check(rule, seen == before, || {
                        format!(
                            "{} of {what} is {seen:#x}, was {before:#x} and is read-only",
                            field.name
                        )
                    })?;
                }
            }
        }

        run.step(
            "4",
            "SubnGet and SubnSet(PortInfo) of ports that do not exist",
        );

        let info = tester.port_info_data(port, 0)?;
        for none in [u32::from(ports) + 1, 0xfe, 0xff, 0x100, 0x7fff_ffff] {
            for request in [Smp::get(attribute::PORT_INFO), Smp::set_port_info(0, &info)] {
                let request = request.about(none);
                tester.must_have_status(run, INVALID, port, &request, status::INVALID_VALUE)?;
            }
        }
    }

    Ok(())
}

/// SubnGet(PortInfo), which must be answered well.
fn get(run: &mut Run, tester: &mut Tester<'_>, port: u8, about: u8) -> Outcome<Answer> {
    let request = Smp::get(attribute::PORT_INFO).about(about.into());
    let answer = tester.must_answer(run, ANSWERED, port, &request)?;
    run.check_eq(NO_ERROR, "MADHeader:Status", answer.status(), 0)?;
    let header = &answer.header;
    run.check_eq(
        RESPONSE,
        "method, attribute and modifier of the response",
        (header.method, header.attribute, header.modifier),
        (method::GET_RESP, attribute::PORT_INFO, about.into()),
    )?;
    Ok(answer)
}

fn legal(name: &'static str, values: Legal) -> Test {
    let id = format!("C14_024_06_CA_02_{name}");
    let taken = format!("{id}#taken");
    let assertion = taken.clone();
    test(
        id,
        "C14-024",
        format!("PortInfo of a channel adapter, part 2: {name} takes every legal value"),
        move |run, tester| legal_body(run, tester, field(name), values, &assertion),
    )
    .covers(&["C14-24.1.1", "C14-30"])
    .asserts([taken.clone(), NO_ERROR.to_owned()])
    .on_lanes(4)
    .mutant(Mutant::mad(
        "keeps-its-value",
        "the component stays as it is",
        taken,
        move || ignores(field(name), |_| true),
    ))
    .mutant(Mutant::mad(
        "refuses-it",
        "a SubnSet(PortInfo) with a legal value has status 7",
        NO_ERROR,
        move || {
            let field = field(name);
            // Another value than the one there is, which the tester's own requests never have
            // before it asks for this.
            MadFaults::default().rx_edit(move |node, mad| {
                if mad.asks(method::SET, attribute::PORT_INFO)
                    && field.load(mad.data())
                        != mutants::component(&mutants::current(node, mad), field)
                    && node
                        .port(1)
                        .is_some_and(|port| port.is_active() && port.info().lid == 0x80)
                {
                    mutants::field("neighbor_mtu").store(mad.data_mut(), 0);
                }
            })
        },
    ))
}

fn legal_body(
    run: &mut Run,
    tester: &mut Tester<'_>,
    field: &'static Field,
    values: Legal,
    taken: &str,
) -> Outcome {
    for port in 1..=tester.ports() {
        let original = tester.port_info_data(port, 0)?;
        for modifier in [0, port] {
            for (value, becomes) in values(&original) {
                run.step(
                    port,
                    format!("SubnSet(PortInfo) to port {port}, AttributeModifier {modifier}, {} {value:#x}", field.name),
                );

                let mut request = Smp::set_port_info(modifier, &tester.port_info_data(port, 0)?);
                field.store(&mut request.data, value);
                let answer = tester.must_have_status(run, NO_ERROR, port, &request, 0)?;
                let after = tester.data(port, attribute::PORT_INFO, 0)?;
                for (what, data) in [("the answer", answer.data()), ("a SubnGet", &after)] {
                    let seen = field.load(data);
                    run.check(taken, seen == becomes, || {
                        format!(
                            "{} of {what} is {seen:#x}, must be {becomes:#x}",
                            field.name
                        )
                    })?;
                }
            }
        }

        tester.good(port, &Smp::set_port_info(0, &original))?;
    }

    Ok(())
}

fn illegal(name: &'static str, values: Illegal) -> Test {
    let id = format!("C14_024_06_CA_03_{name}");
    let kept = format!("{id}#kept");
    let assertion = kept.clone();
    test(
        id,
        "C14-024",
        format!("PortInfo of a channel adapter, part 3: illegal values of {name} are refused"),
        move |run, tester| illegal_body(run, tester, field(name), values, &assertion),
    )
    .covers(&["C13-24", "C14-24.1.1", "C14-30"])
    .asserts([ILLEGAL.to_owned(), INVALID.to_owned(), kept.clone()])
    .on_lanes(2)
    .mutant(Mutant::mad(
        "overlooks-it",
        "an illegal value is passed over, and the rest is taken with status 0",
        INVALID,
        move || {
            let field = field(name);
            mutants::takes(attribute::PORT_INFO, move |node, mad, data| {
                let now = mutants::current(node, mad);
                if values(&now).contains(&field.load(data)) {
                    let harmless = match field.name {
                        "port_state" | "port_physical_state" => 0,
                        _ => mutants::component(&now, field),
                    };
                    field.store(data, harmless);
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "takes-it-and-complains",
        "an illegal value is refused with status 7, and shown all the same",
        kept,
        move || {
            let field = field(name);
            writable(field)
        },
    ))
}

fn illegal_body(
    run: &mut Run,
    tester: &mut Tester<'_>,
    field: &'static Field,
    values: Illegal,
    kept: &str,
) -> Outcome {
    for port in 1..=tester.ports() {
        let info = tester.port_info_data(port, 0)?;
        let before = field.load(&tester.data(port, attribute::PORT_INFO, 0)?);
        let values = values(&info);
        if values.is_empty() {
            for assertion in [ILLEGAL, INVALID, kept] {
                run.not_applicable(
                    assertion,
                    format!("no value of {} is illegal here", field.name),
                );
            }
            continue;
        }

        for modifier in [0, port] {
            for value in &values {
                run.step(
                    port,
                    format!("SubnSet(PortInfo) to port {port}, AttributeModifier {modifier}, {} {value:#x}", field.name),
                );

                let mut request = Smp::set_port_info(modifier, &info);
                field.store(&mut request.data, *value);
                let answer = tester.must_answer(run, ILLEGAL, port, &request)?;
                run.check_eq(
                    INVALID,
                    "MADHeader:Status",
                    answer.status(),
                    status::INVALID_VALUE,
                )?;

                let after = field.load(&tester.data(port, attribute::PORT_INFO, 0)?);
                run.check_eq(kept, field.name, after, before)?;
            }
        }
    }

    run.check(ILLEGAL, true, String::new)
}
