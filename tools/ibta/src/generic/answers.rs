//! Mutants of the management agents that are for no test in particular: one MAD of those that a
//! device sends is another than it is, or is not sent.
//!
//! Which MAD is counted from the beginning of a test, so each assertion that looks at what the
//! device says has one that it fails on.

use crate::catalog::{Body, Test};
use crate::execute::execute;
use crate::run::Verdict;
use crate::sim::{MadFaults, OnCable, SimBackend};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// What is changed; `None`: it is not sent.
type Edit = Option<fn(&mut OnCable)>;

const EDITS: &[(&str, Edit)] = &[
    ("not sent", None),
    (
        "BaseVersion",
        Some(|mad| mad.edit_header(|header| header.base_version += 1)),
    ),
    (
        "MgmtClass",
        Some(|mad| mad.edit_header(|header| header.class ^= 1)),
    ),
    (
        "ClassVersion",
        Some(|mad| mad.edit_header(|header| header.class_version += 1)),
    ),
    (
        "Method",
        Some(|mad| mad.edit_header(|header| header.method ^= 1)),
    ),
    (
        "Status",
        Some(|mad| mad.edit_header(|header| header.status ^= 0x1c)),
    ),
    (
        "TransactionID",
        Some(|mad| mad.edit_header(|header| header.tid ^= 1)),
    ),
    (
        "AttributeID",
        Some(|mad| mad.edit_header(|header| header.attribute ^= 1)),
    ),
    (
        "AttributeModifier",
        Some(|mad| mad.edit_header(|header| header.modifier ^= 1)),
    ),
    (
        "first bit of the attribute",
        Some(|mad| mad.data_mut()[0] ^= 0x80),
    ),
    (
        "inverted attribute",
        Some(|mad| mad.data_mut().iter_mut().for_each(|byte| *byte ^= 0xff)),
    ),
];

/// How one MAD is changed, by its number.
fn faults(edit: Edit, number: u32, sent: Rc<Cell<u32>>) -> MadFaults {
    MadFaults::default().tx(move |_, mut mad| {
        let this = sent.replace(sent.get() + 1);
        match edit {
            None if this == number => return Vec::new(),
            Some(edit) if this == number => edit(&mut mad),
            _ => {}
        }
        vec![(Duration::ZERO, mad)]
    })
}

/// The assertions of a test of the management agents by which it fails on such a device, each with
/// one of those devices.
pub fn caught(test: &Test) -> BTreeMap<String, String> {
    let mut caught = BTreeMap::new();
    if !matches!(test.body, Body::Mad(_)) {
        return caught;
    }

    for (name, edit) in EDITS {
        for number in 0.. {
            let sent = Rc::new(Cell::new(0));
            let mut backend = SimBackend {
                mad_faults: Some(faults(*edit, number, sent.clone())),
                ..SimBackend::default()
            };
            let (result, _) = execute(test, &mut backend, Box::new(|_| {}));
            let failed =
                |assertion: &&crate::run::AssertionResult| assertion.result == Verdict::Fail;
            if let Some(failed) = result.assertions.iter().find(failed)
                && result.result == Verdict::Fail
            {
                let device = || format!("MAD {number}: {name}");
                caught.entry(failed.id.clone()).or_insert_with(device);
            }

            // Beyond the last.
            if sent.get() <= number {
                break;
            }
        }
    }

    caught
}
