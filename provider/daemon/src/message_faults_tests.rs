//! What becomes of messages of QP1 by faults.

use std::str::FromStr;

use ferroce_control::faults::{Delay, Fault, Often, QpNumber, Share, Whom};
use ferroce_wire::cm::attribute;
use ferroce_wire::mad::CLASS_CM;

use super::*;
use crate::mads::Address;

fn faults(action: Action, packets: &str, count: Option<u64>) -> MessageFaults {
    let fault = Fault {
        action,
        whom: Whom {
            qp: Some(QpNumber(1)),
            packets: (!packets.is_empty()).then(|| packets.parse().unwrap()),
            ..Whom::default()
        },
        often: Often {
            rate: Share::ALL,
            count,
            ..Often::default()
        },
        lasts: None,
        seed: 7,
    };
    fault.check().unwrap();
    let mut faults = MessageFaults::default();
    let given = Given {
        id: 1,
        place: 0,
        fault,
        left_ns: None,
    };
    faults.replace(vec![given], &CounterPage::private().unwrap());
    faults
}

fn message(attribute: u16) -> Outgoing {
    let mut mad = [0; mad::LEN];
    mad[1] = CLASS_CM;
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    Outgoing {
        port: 1,
        qpn: QP1,
        to: Address {
            qpn: QP1,
            ..Address::default()
        },
        mad,
    }
}

fn attributes(out: &[Outgoing]) -> Vec<u8> {
    out.iter().map(|out| out.mad[17]).collect()
}

const REQ: u8 = attribute::REQ as u8;
const REP: u8 = attribute::REP as u8;

#[test]
fn the_message_that_is_named_is_lost_and_others_pass() {
    let mut faults = faults(Action::Loss, "cm=REQ", Some(1));
    let (req, rep) = (message(attribute::REQ), message(attribute::REP));
    assert_eq!(attributes(&faults.leave(&rep, true)), [REP]);
    assert!(faults.leave(&req, true).is_empty());
    assert_eq!(attributes(&faults.leave(&req, true)), [REQ]);

    // What comes is another matter, and so is QP0.
    assert_eq!(faults.come(&req.looped()).len(), 1);
    let smp = Outgoing { qpn: 0, ..req };
    assert_eq!(faults.leave(&smp, true).len(), 1);
    assert_eq!(faults.armed[0].hits(), 1);
}

#[test]
fn what_is_delayed_keeps_its_order_and_what_is_overtaken_does_not() {
    let by = Delay::from_str("20ms").unwrap();
    let mut delayed = faults(Action::Delay { by }, "", None);
    for attribute in [attribute::REQ, attribute::REP] {
        assert!(delayed.leave(&message(attribute), true).is_empty());
    }
    let first = delayed.next().unwrap();
    let due = delayed.due(first + Duration::from_secs(1));
    let order = due.into_iter().map(|mut passing| passing.mad()[17]);
    assert_eq!(order.collect::<Vec<_>>(), [REQ, REP]);
    assert!(delayed.next().is_none());

    let mut overtaken = faults(Action::Reorder, "cm=REQ", None);
    assert!(overtaken.leave(&message(attribute::REQ), true).is_empty());
    let both = overtaken.leave(&message(attribute::REP), true);
    assert_eq!(attributes(&both), [REP, REQ]);
    assert!(overtaken.next().is_none());

    // If there is no next one, it goes on all the same.
    assert!(overtaken.leave(&message(attribute::REQ), true).is_empty());
    let at = overtaken.next().unwrap();
    assert!(matches!(overtaken.due(at)[..], [Passing::Leaving { .. }]));
}

#[test]
fn messages_are_doubled_and_changed() {
    let req = message(attribute::REQ);
    let twice = faults(Action::Duplicate, "", None).leave(&req, true);
    assert_eq!(attributes(&twice), [REQ, REQ]);

    let damage = ferroce_control::faults::Damage::Payload;
    let changed = faults(Action::Corrupt { damage }, "", None).leave(&req, true);
    let bits = |(a, b): (&u8, &u8)| (a ^ b).count_ones();
    let differing: u32 = changed[0].mad.iter().zip(&req.mad).map(bits).sum();
    assert_eq!(differing, 1);
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let by = Delay::from_str("1s").unwrap();
    let mut faults = faults(Action::Delay { by }, "", None);
    for _ in 0..HELD + 7 {
        faults.leave(&message(attribute::REQ), false);
    }
    assert_eq!(faults.waiting.len(), HELD);
}
