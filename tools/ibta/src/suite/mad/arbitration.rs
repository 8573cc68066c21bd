//! VLArbitrationTable: both tables of a port, all their parts, and what is refused.

use super::case::test;
use super::lanes::{EIGHT, INVALID, NO_ERROR};
use super::mutants::{shows_as, status_of, takes};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run, Stop};
use crate::sim::MadFaults;
use ferroce_wire::smp::{VlArbitration, VlWeight, attribute, method, status};
use std::cell::Cell;
use std::rc::Rc;

const CAP: &str = "v1c14-024.1.1#09.01";
const LANES: &str = "v1c14-024.1.1#09.02";
const TAKEN: &str = "v1c14-024.1.1#09.03";
const READ: &str = "v1c14-024.1.1#09.04";
const MANAGEMENT: &str = "C14_024_09_CA#management-lane";

pub(super) fn arbitration() -> Test {
    test(
        "C14_024_09_CA",
        "C14-024",
        "VLArbitrationTable: both tables, all their parts, and no others",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step("1", format!("SubnGet(PortInfo) to port {port}: VLCap"));
                let info = tester.port_info(port, 0)?;
                run.check(CAP, (1..6).contains(&info.vl_cap), || {
                    format!("VLCap is {}", info.vl_cap)
                })?;

                if info.vl_cap == 1 {
                    return Err(Stop::NotApplicable("the port has one data lane".to_owned()));
                }

                let lanes = if info.vl_cap == 5 {
                    15
                } else {
                    1 << (info.vl_cap - 1)
                };

                let caps = [info.vl_arbitration_low_cap, info.vl_arbitration_high_cap];
                run.check(LANES, caps.iter().all(|cap| *cap >= lanes), || {
                    format!("{caps:?} entries for {lanes} lanes")
                })?;

                let parts = (0..=16).chain([0x20, 0xff, 0x100, 0x7fff, 0x8000, 0xffff]);
                for part in parts {
                    let entries = match part {
                        1..=4 => usize::from(caps[(part as usize - 1) / 2])
                            .saturating_sub(32 * ((part as usize - 1) % 2))
                            .min(32),
                        _ => 0,
                    };

                    set_part(run, tester, port, part, entries, lanes)?;
                }
            }

            Ok(())
        },
    )
    .covers(&["C13-24", "C14-24.1.1"])
    .asserts([CAP, LANES, TAKEN, READ, MANAGEMENT, NO_ERROR, INVALID])
    .on_lanes(EIGHT)
    .mutant(Mutant::mad(
        "one-entry-for-all",
        "the low-priority table has one entry, and there are eight lanes",
        LANES,
        || shows_as("vl_arbitration_low_cap", 1),
    ))
    .mutant(Mutant::mad(
        "weights-are-forgotten",
        "the answer to a SubnSet shows it, a SubnGet does not",
        READ,
        || {
            let asked = Rc::new(Cell::new(0));
            let answered = asked.clone();
            MadFaults::default()
                .rx_edit(move |_, mad| {
                    if mad.asks(method::GET, attribute::VL_ARBITRATION) {
                        asked.set(mad.header().tid);
                    }
                })
                .tx_edit(move |_, mad| {
                    if mad.answers(attribute::VL_ARBITRATION) && mad.header().tid == answered.get()
                    {
                        mad.data_mut()[1] ^= 1;
                    }
                })
        },
    ))
    .mutant(Mutant::mad(
        "arbitrates-lane-15",
        "an entry for lane 15 is taken",
        MANAGEMENT,
        || {
            takes(attribute::VL_ARBITRATION, |_, _, data| {
                if data[0] == 15 {
                    data[0] = 0;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "any-part-will-do",
        "parts that do not exist have status 0",
        INVALID,
        || status_of(attribute::VL_ARBITRATION, 0),
    ))
}

/// Steps 2 and 3: a part of a table is set, and set back. One without entries is refused.
fn set_part(
    run: &mut Run,
    tester: &mut Tester<'_>,
    port: u8,
    part: u32,
    entries: usize,
    lanes: u8,
) -> Outcome {
    run.step(
        "2",
        format!("SubnSet(VLArbitrationTable), part {part} of {entries} entries"),
    );

    let weights = std::array::from_fn(|at| VlWeight {
        vl: (at as u8).wrapping_add(part as u8) % lanes,
        weight: 7 * at as u8 + 1,
    });

    let mut data = [0; 64];
    VlArbitration(weights).emit(&mut data);
    let set = Smp::set(attribute::VL_ARBITRATION, data).about(part << 16);
    let get = Smp::get(attribute::VL_ARBITRATION).about(part << 16);
    if entries == 0 {
        for request in [set, get] {
            tester.must_have_status(run, INVALID, port, &request, status::INVALID_VALUE)?;
        }
        return Ok(());
    }

    let before = *tester
        .must_have_status(run, NO_ERROR, port, &get, 0)?
        .data();

    let due = &data[..2 * entries];
    let answer = tester.must_have_status(run, NO_ERROR, port, &set, 0)?;
    let seen = &answer.data()[..2 * entries];
    run.check_eq(TAKEN, "the entries of the answer", seen, due)?;

    let after = *tester
        .must_have_status(run, NO_ERROR, port, &get, 0)?
        .data();
    run.check_eq(READ, "the entries", &after[..2 * entries], due)?;

    run.step("3", "an entry for lane 15 is refused");
    let mut bad = set;
    bad.data[0] = 15;
    let answer = tester.must_answer(run, MANAGEMENT, port, &bad)?;
    run.check_eq(
        MANAGEMENT,
        "MADHeader:Status",
        answer.status(),
        status::INVALID_VALUE,
    )?;

    tester.good(port, &set.with(before))?;
    Ok(())
}
