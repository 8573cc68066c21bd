//! Tests of `answers`: the scoreboard's part.

use super::*;

const RTT: Duration = Duration::from_micros(40);
const MTU: u32 = 1000;

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// A READ of 16 packets less 300 bytes from PSN 100 on, a SEND, and another READ of 8 packets.
fn board() -> Board {
    let mut board = Board::new(MTU, 100);
    for (psn, end, cost) in [(100, 116, 15_700), (116, 117, 1000), (117, 125, 8000)] {
        board.sent(psn, end, cost, None);
        if end - psn > 1 {
            board.awaits(true);
        }
    }
    board
}

/// PSNs from, to before, and what has become of them.
fn fates(board: &Board) -> Vec<(u64, u64, Fate)> {
    let of = |e: &Entry| (e.psn, e.end, e.fate);
    board.entries.iter().map(of).collect()
}

#[test]
fn an_answer_is_in_as_many_pieces_as_there_are_gaps() {
    use Fate::{Came, Out};

    let (mut board, mut reordering) = (board(), Reordering::default());
    for psn in [100, 104, 102, 103, 115, 101] {
        board.answer(psn, at(0), RTT, &mut reordering);
    }
    let want = [
        (100, 105, Came),
        (105, 115, Out),
        (115, 116, Came),
        (116, 117, Out),
        (117, 125, Out),
    ];
    assert_eq!(fates(&board), want);
    let costs: Vec<u32> = board.entries.iter().map(|e| e.cost).collect();
    assert_eq!(costs, [5000, 10_000, 700, 1000, 8000]);
    assert_eq!((board.aside(), board.passable(100)), (5700, 105));
    assert!(!board.lacks(115) && board.lacks(105) && !board.lacks(116));

    // What came after the first READ acknowledges the SEND; the second READ may be on its way.
    board.answer(117, at(0), RTT, &mut reordering);
    assert_eq!(
        fates(&board)[3..],
        [(116, 117, Came), (117, 118, Came), (118, 125, Out)]
    );
    let news = board.executed(125, true, at(0), RTT, &mut reordering);
    assert!(!news.any && board.passable(100) == 105);
    for psn in 105..115 {
        board.answer(psn, at(0), RTT, &mut reordering);
    }
    assert_eq!(board.passable(100), 118);
}

#[test]
fn an_acknowledgement_shows_that_all_that_was_answered_before_it_is_lost() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    board.answer(100, at(0), RTT, &mut reordering);
    assert_eq!(board.losses(at(0), RTT, reordering), (0, None));
    board.executed(116, true, at(0), RTT, &mut reordering);
    // No packet has overtaken the last response but the acknowledgement: it may be late.
    assert_eq!(board.losses(at(0), RTT, reordering), (0, Some(at(10))));
    assert_eq!(board.losses(at(10), RTT, reordering).0, 14_700);

    // Of what was asked for again it says nothing.
    let (i, entry) = board.next_lost().expect("lost");
    assert_eq!((entry.psn, entry.end), (101, 116));
    board.resent(i, at(11));
    board.executed(116, true, at(12), RTT, &mut reordering);
    assert_eq!(board.losses(at(900), RTT, reordering), (0, None));
}

#[test]
fn a_read_that_the_peer_kept_is_judged_from_its_turn_on() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    board.came([116, 117].into_iter(), at(0), RTT, &mut reordering);
    assert_eq!(fates(&board)[2], (117, 125, Fate::Kept));
    assert_eq!(board.aside(), 9000);
    assert_eq!(board.losses(at(0), RTT, reordering), (0, Some(at(10))));
    board.losses(at(10), RTT, reordering);
    let (i, entry) = board.next_lost().expect("the first READ is lost");
    assert_eq!((entry.psn, entry.end), (100, 116));
    assert_eq!(
        board.part(103, Some(105)).map(|(i, _)| i),
        None,
        "not taken yet"
    );
    board.resent(i, at(11));

    for psn in 100..116 {
        board.answer(psn, at(60), RTT, &mut reordering);
    }
    board.answer(117, at(61), RTT, &mut reordering);
    assert_eq!(fates(&board)[3], (118, 125, Fate::Out));
    // It was sent before what was sent again, and answered after that.
    assert_eq!(board.losses(at(900), RTT, reordering), (0, None));
    assert_eq!(board.part(119, Some(121)).map(|(i, _)| i), Some(4));
}

/// What is counted is what there is, whatever happens in whatever order.
#[test]
fn the_sums_hold() {
    let mut x = 7u64;
    let mut random = move |below: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % below
    };
    for _ in 0..if cfg!(miri) { 3 } else { 300 } {
        let (mut board, mut reordering, mut una) = (board(), Reordering::default(), 100);
        for step in 0..120 {
            let now = at(step * 7);
            match random(8) {
                0 => drop(board.losses(now, RTT, reordering)),
                1 => board.probe(random(2) == 0),
                2 => drop(board.executed(una + random(4), true, now, RTT, &mut reordering)),
                3 => {
                    let psns = [una + 1 + random(9), una + 10 + random(9)];
                    board.came(psns.into_iter(), now, RTT, &mut reordering);
                }
                4 => {
                    if let Some((i, _)) = board.next_lost() {
                        board.resent(i, now);
                    }
                }
                _ => {
                    let psn = una + random(12);
                    if board.lacks(psn) {
                        board.answer(psn, now, RTT, &mut reordering);
                    }
                }
            }
            if random(4) == 0 {
                una = board.passable(una);
                board.passes(una, now, RTT, &mut reordering);
            }
            holds(&board, una);
        }
    }
}

fn holds(board: &Board, una: u64) {
    let entries = &board.entries;
    let mut next = una;
    for entry in entries {
        assert!(entry.psn >= next && entry.psn < entry.end, "{entries:#?}");
        assert!(entry.answered || entry.end == entry.psn + 1);
        next = entry.end;
    }
    let cost = |of: &[Fate]| -> u64 {
        let those = entries.iter().filter(|e| of.contains(&e.fate));
        those.map(|e| u64::from(e.cost)).sum()
    };
    let aside = cost(&[Fate::Kept, Fate::Came, Fate::Lost]);
    assert_eq!(board.aside(), aside, "{entries:#?}");
    let settled = entries.iter().all(|e| e.fate == Fate::Out && !e.again);
    assert_eq!(board.is_settled(), settled, "{entries:#?}");
    let lost = entries.iter().find(|e| e.fate == Fate::Lost);
    assert_eq!(board.next_lost().map(|(_, e)| e.psn), lost.map(|e| e.psn));
}
