//! P_KeyTable: what a port's partition keys are set to, each port by itself.

use super::decided::{NO_ERROR, RESPONSE};
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run};
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{status_of, takes};
use ferroce_wire::smp::{NodeInfo, PKeyBlock, attribute, method, status};
use std::cell::Cell;
use std::rc::Rc;

const TAKEN: &str = "C14_024_07#taken";
const OWN: &str = "C14_024_07#own";
const CAP: &str = "C14_024_07#cap";

pub(super) fn p_key_table() -> Test {
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
                for block in 0..blocks {
                    set_block(run, tester, port, block, cap)?;
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

            tester.has_others(run, OWN)
        },
    )
    .covers(&["C14-24.1.1", "C14-30"])
    .asserts([TAKEN, OWN, CAP, NO_ERROR, RESPONSE])
    .tried_on_ports(2)
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

/// Steps 1 to 3: a block of a port's table is set, and set back.
fn set_block(run: &mut Run, tester: &mut Tester<'_>, port: u8, block: u32, cap: usize) -> Outcome {
    run.step(
        "1",
        format!("SubnSet(P_KeyTable) to port {port}, block {block}"),
    );

    let get = Smp::get(attribute::P_KEY_TABLE).about(block);
    let before = *tester
        .must_have_status(run, NO_ERROR, port, &get, 0)?
        .data();

    let mut elsewhere = Vec::new();
    for other in (1..=tester.ports()).filter(|other| *other != port) {
        elsewhere.push((other, tester.data(other, attribute::P_KEY_TABLE, block)?));
    }

    // The first of all stays, so that the tester can still be heard.
    let mut keys = PKeyBlock::parse(&before).0;
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
    for (other, before) in &elsewhere {
        let now = tester.data(*other, attribute::P_KEY_TABLE, block)?;
        run.check(OWN, now == *before, || {
            format!("the table of port {other} has changed too")
        })?;
    }

    tester.good(port, &Smp::set(attribute::P_KEY_TABLE, before).about(block))?;
    Ok(())
}
