//! C14_024_08 and 09: SLtoVLMappingTable, where there are several lanes and where there is one, and
//! VLArbitrationTable.

use super::arbitration::arbitration;
use super::case::test;
use super::mutants::{shows, status_of, takes};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run, Stop};
use ferroce_wire::smp::{PortInfo, SlToVl, attribute, capability, method, status};

pub(super) const NO_ERROR: &str = "v1c13-024#01";
const UNSUPPORTED_STATUS: &str = "v1c13-024#06";
pub(super) const INVALID: &str = "v1c13-024#07";
const MAPPING: &str = "v1c14-024.1.1#08.01";
const ONE_LANE: &str = "v1c14-024.1.1#08.02";
const GET: &str = "v1c14-024.1.1#08.03";
const SET: &str = "v1c14-024.1.1#08.04";
/// VLCap of eight data lanes.
pub(super) const EIGHT: u8 = 4;

pub(super) fn tests() -> Vec<Test> {
    vec![mapping(), no_mapping(), arbitration()]
}

fn has_mapping(info: &PortInfo) -> bool {
    info.capability_mask & capability::IS_SL_MAPPING_SUPPORTED != 0
}

fn mapping() -> Test {
    test(
        "C14_024_08_01",
        "C14-024",
        "SLtoVLMappingTable of a port with several lanes",
        mapping_body,
    )
    .covers(&["C14-24.1.1"])
    .asserts([NO_ERROR, MAPPING, GET, SET])
    .on_lanes(EIGHT)
    .mutant(Mutant::mad(
        "maps-to-one-lane",
        "VLCap says one lane",
        MAPPING,
        || super::mutants::shows_as("vl_cap", 1),
    ))
    .mutant(Mutant::mad(
        "mapping-stays",
        "a SubnSet is answered as asked, and nothing changes",
        GET,
        || {
            // The answer shows what was asked for.
            let asked = std::rc::Rc::new(std::cell::Cell::new(None));
            let shown = asked.clone();
            takes(attribute::SL_TO_VL, move |_, _, data| {
                asked.set(Some(*data));
                data.fill(0);
            })
            .tx_edit(move |_, mad| {
                if mad.answers(attribute::SL_TO_VL)
                    && let Some(data) = shown.take()
                {
                    *mad.data_mut() = data;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "last-level-is-forgotten",
        "service level 15 keeps its lane",
        SET,
        || takes(attribute::SL_TO_VL, |_, _, data| data[7] &= 0xf0),
    ))
    .mutant(Mutant::mad(
        "refuses-it",
        "the attribute is refused though IsSLMappingSupported is set",
        NO_ERROR,
        || status_of(attribute::SL_TO_VL, status::UNSUPPORTED_ATTRIBUTE),
    ))
}

fn mapping_body(run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
    for port in 1..=tester.ports() {
        run.step("1", format!("SubnGet(PortInfo) to port {port}"));
        let info = tester.port_info(port, 0)?;
        if !has_mapping(&info) {
            return Err(Stop::NotApplicable("IsSLMappingSupported is 0".to_owned()));
        }

        run.check(MAPPING, info.vl_cap > 1, || {
            "IsSLMappingSupported is set with one lane".to_owned()
        })?;
        let get = Smp::get(attribute::SL_TO_VL);
        let before = *tester
            .must_have_status(run, NO_ERROR, port, &get, 0)?
            .data();
        for shift in 0..16u8 {
            run.step(
                "2",
                format!("SubnSet(SLtoVLMappingTable): level n by lane n + {shift}"),
            );
            let mut data = [0; 64];
            SlToVl(std::array::from_fn(|sl| (sl as u8 + shift) & 15)).emit(&mut data);
            let set = Smp::set(attribute::SL_TO_VL, data);
            let answer = tester.must_have_status(run, NO_ERROR, port, &set, 0)?;
            run.check_eq(SET, "the table of the answer", *answer.data(), data)?;
            let answer = tester.must_have_status(run, NO_ERROR, port, &get, 0)?;
            run.check_eq(GET, "the table", *answer.data(), data)?;
        }

        tester.good(port, &Smp::set(attribute::SL_TO_VL, before))?;
    }

    Ok(())
}

fn no_mapping() -> Test {
    test(
        "C14_024_08_02",
        "C14-024",
        "SLtoVLMappingTable of a port with one lane: not supported",
        no_mapping_body,
    )
    .covers(&["C13-24", "C14-24.1.1", "C14-31"])
    .asserts([UNSUPPORTED_STATUS, MAPPING, ONE_LANE, GET, SET])
    .mutant(Mutant::mad(
        "answers-all-the-same",
        "the table is there though IsSLMappingSupported is 0",
        MAPPING,
        || status_of(attribute::SL_TO_VL, 0),
    ))
    .mutant(Mutant::mad(
        "blames-the-value",
        "it is refused with the status of a value that is not legal",
        UNSUPPORTED_STATUS,
        || status_of(attribute::SL_TO_VL, status::INVALID_VALUE),
    ))
    .mutant(Mutant::mad(
        "silent-to-get",
        "a SubnGet of it is not answered",
        GET,
        || super::mutants::silent_to(|mad| mad.asks(method::GET, attribute::SL_TO_VL)),
    ))
    .mutant(Mutant::mad(
        "lanes-without-mapping",
        "VLCap says two lanes",
        ONE_LANE,
        || {
            shows(attribute::PORT_INFO, |_, _, data| {
                super::mutants::field("vl_cap").store(data, 2)
            })
        },
    ))
    .mutant(Mutant::mad(
        "silent-to-set",
        "a SubnSet of it is not answered",
        SET,
        || super::mutants::silent_to(|mad| mad.asks(method::SET, attribute::SL_TO_VL)),
    ))
}

fn no_mapping_body(run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
    for port in 1..=tester.ports() {
        run.step("1", format!("SubnGet(PortInfo) to port {port}"));
        let info = tester.port_info(port, 0)?;
        run.step("4", "IsSLMappingSupported is 0");
        if has_mapping(&info) {
            return Err(Stop::NotApplicable(
                "IsSLMappingSupported is set".to_owned(),
            ));
        }

        run.step("5", "VLCap is one lane");
        run.check_eq(ONE_LANE, "VLCap", info.vl_cap, 1)?;

        for (assertion, request) in [
            (GET, Smp::get(attribute::SL_TO_VL)),
            (SET, Smp::set(attribute::SL_TO_VL, [0x11; 64])),
        ] {
            run.step(
                "6",
                format!("method {:#x} of SLtoVLMappingTable", request.method),
            );
            let answer = tester.must_answer(run, assertion, port, &request)?;
            run.check(MAPPING, answer.status() != 0, || {
                "it is supported after all".to_owned()
            })?;
            run.check_eq(
                UNSUPPORTED_STATUS,
                "MADHeader:Status",
                answer.status(),
                status::UNSUPPORTED_ATTRIBUTE,
            )?;
        }
    }

    Ok(())
}
