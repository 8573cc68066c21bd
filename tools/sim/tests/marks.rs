//! Marks of congestion (ECN): who tells of them, and what becomes of a bottleneck that sets them.

use std::fmt::Write;

use ferroce_sim::marked::{self, Control, Outcome};
use ferroce_sim::tester::{Tester, usual};
use ferroce_transport::{Duration, Note, QpState, QpType};
use ferroce_wire::opcode;

/// Once in 50 µs the sender of marked packets is told, by the next that goes out.
#[test]
fn marks_are_answered_by_a_cnp_now_and_then() {
    for service in [QpType::Rc, QpType::Uc, QpType::XrcSend, QpType::XrcRecv] {
        let mut t = Tester::of(service, usual(), QpState::Rtr, false);
        for wait in [0, 20, 29, 1, 200] {
            t.now += Duration::from_micros(wait);
            t.qp.marked(t.now, &mut t.host);
            t.qp.marked(t.now, &mut t.host);
            let sent = t.sent();
            let told = matches!(wait, 0 | 1 | 200);
            assert_eq!(
                sent.len(),
                usize::from(told),
                "{service:?}, {wait}: {sent:?}"
            );
            for packet in &sent {
                assert_eq!((packet.bth.opcode, packet.bth.becn), (opcode::CNP, true));
                assert_eq!((packet.bth.psn, packet.payload.len()), (0, 16));
            }
        }
        let count = |note| t.notes().iter().filter(|n| **n == note).count();
        assert_eq!((count(Note::Marked), count(Note::Notified)), (10, 3));
    }
}

/// A datagram has no queue pair at the other end that could go slower, and who does not take
/// packets has no peer.
#[test]
fn nobody_is_told_where_nobody_could_go_slower() {
    for (service, state) in [
        (QpType::Ud, QpState::Rts),
        (QpType::Rc, QpState::Init),
        (QpType::Rc, QpState::Reset),
    ] {
        let mut t = Tester::of(service, usual(), state, false);
        t.qp.marked(t.now, &mut t.host);
        assert!(t.sent().is_empty(), "{service:?} in {state:?}");
    }
    let mut t = Tester::of(QpType::Rc, usual(), QpState::Rts, false);
    t.qp.marked(t.now, &mut t.host);
    t.go(QpState::Err);
    assert!(t.sent().is_empty(), "after an error");
}

/// Jain's index of fairness: 1 where all have the same.
fn fairness(goodput: &[f64]) -> f64 {
    let sum: f64 = goodput.iter().sum();
    let squares: f64 = goodput.iter().map(|g| g * g).sum();
    sum * sum / (goodput.len() as f64 * squares)
}

#[test]
fn a_bottleneck_that_marks() {
    const DURATION: Duration = Duration::from_millis(800);
    let mut out = "Senders with links of 25 Gb/s share a bottleneck of 10 Gb/s, each on a path of its own, delay 10 us in one direction,\n\
        packets of 4096 bytes. Those of DCQCN are marked from 5 KB of queue on, all from 200 KB on, up to 1 % between; the second of two\n\
        spans of 400 ms. Goodput of all in Gb/s, the queue in KB on average and at most, Jain's index of fairness.\n\n\
        \x20                goodput   queue longest fairness\n"
        .to_owned();
    for control in [Control::Aimd, Control::Dcqcn] {
        for senders in [1, 2, 8, 32] {
            let Outcome {
                goodput,
                queue,
                longest,
            } = marked::run(1, control, senders, DURATION);
            let all: f64 = goodput.iter().sum();
            let (queue, longest, fair) = (queue / 1000, longest / 1000, fairness(&goodput));
            let name = format!("{control:?}").to_lowercase();
            let _ = writeln!(
                out,
                "{name:<6} {senders:>2} senders{all:>8.2}{queue:>8}{longest:>8}{fair:>9.3}"
            );
            if control == Control::Dcqcn {
                assert!(all > 7.0, "{senders}: {all} Gb/s");
                assert!(queue < 2_000, "{senders}: {queue} KB");
            }
        }
    }

    let path = format!("{}/tests/marks.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FERROCE_SIM_BLESS").is_some() {
        std::fs::write(&path, &out).expect("writing the table");
    }
    let then = std::fs::read_to_string(&path).expect("reading the table");
    assert!(
        out == then,
        "the table has changed; FERROCE_SIM_BLESS=1 writes it anew\n{out}"
    );
}
