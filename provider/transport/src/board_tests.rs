//! Tests of `board`.

use super::*;

const RTT: Duration = Duration::from_micros(40);

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// Eight packets from PSN 100 on, sent once.
fn board() -> Board {
    let mut board = Board::default();
    for psn in 100..108 {
        board.sent(psn, psn + 1, 1000, None);
    }
    board
}

fn lost(board: &Board) -> Vec<u64> {
    let lost = board.entries.iter().filter(|e| e.fate == Fate::Lost);
    lost.map(|e| e.psn).collect()
}

#[test]
fn three_later_ones_show_a_loss_at_once_and_fewer_after_a_while() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    let news = board.came([103, 104].into_iter(), at(0), RTT, &mut reordering);
    assert!(news.any);
    assert_eq!(board.aside(), 2000);
    // 100 and 101 were overtaken by three and more, 102 by two.
    assert_eq!(board.losses(at(0), RTT, reordering), (2000, Some(at(10))));
    assert_eq!(lost(&board), [100, 101]);
    assert_eq!(board.losses(at(10), RTT, reordering), (1000, None));
    assert_eq!(lost(&board), [100, 101, 102]);
    assert_eq!(board.aside(), 5000);
}

#[test]
fn what_was_sent_again_is_lost_again_only_if_something_sent_after_it_came() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    board.came(101..108, at(0), RTT, &mut reordering);
    board.losses(at(0), RTT, reordering);
    let (i, entry) = board.next_lost().expect("100 is lost");
    assert_eq!((entry.psn, board.aside()), (100, 8000));
    board.resent(i, at(1));
    assert_eq!(board.aside(), 7000);
    assert_eq!(board.losses(at(900), RTT, reordering), (0, None));

    // News of what was sent before says nothing, of what was sent after something.
    board.sent(108, 109, 1000, Some(at(2)));
    let news = board.came(101..109, at(44), RTT, &mut reordering);
    assert_eq!(news.rtt, Some(Duration::from_micros(42)));
    assert_eq!(board.losses(at(44), RTT, reordering), (0, Some(at(54))));
    assert_eq!(board.losses(at(54), RTT, reordering), (1000, None));
    assert_eq!(lost(&board), [100]);

    let news = board.passes(109, at(60), RTT, &mut reordering);
    assert!(news.any && board.is_settled() && board.entries.is_empty());
    assert_eq!(board.aside(), 0);
}

#[test]
fn a_network_that_reorders_is_waited_for() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    board.came(101..103, at(0), RTT, &mut reordering);
    assert_eq!(board.losses(at(0), RTT, reordering), (0, Some(at(10))));
    // It was late.
    board.passes(103, at(5), RTT, &mut reordering);
    assert_eq!(reordering, Reordering(1));
    board.came(104..108, at(6), RTT, &mut reordering);
    assert_eq!(board.losses(at(6), RTT, reordering), (0, Some(at(16))));
    assert_eq!(board.losses(at(16), RTT, reordering).0, 1000);

    // Sent again for nothing: the first one comes after all.
    let (i, _) = board.next_lost().expect("103 is lost");
    board.resent(i, at(17));
    board.passes(108, at(18), RTT, &mut reordering);
    assert_eq!(reordering, Reordering(2));
}

#[test]
fn silence_has_the_gaps_sent_again_or_the_last() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    board.probe(true);
    assert_eq!(lost(&board), [107]);
    board.resent(7, at(1));
    board.probe(false);
    assert_eq!(lost(&board), [100]);
    board.resent(0, at(2));
    board.came([102, 105].into_iter(), at(2), RTT, &mut reordering);
    board.probe(true);
    assert_eq!(lost(&board), [100, 101, 103, 104]);
}

#[test]
fn the_oldest_that_had_come_and_was_refused_is_sent_again() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    board.came(101..104, at(0), RTT, &mut reordering);
    board.passes(101, at(1), RTT, &mut reordering);
    board.came(102..104, at(2), RTT, &mut reordering);
    assert_eq!(lost(&board), [101]);
}

#[test]
fn a_probe_that_finds_a_late_peer_shows_no_loss() {
    let (mut board, mut reordering) = (board(), Reordering::default());
    for (first, psn, now) in [(true, 107, 0), (false, 100, 400)] {
        board.probe(first);
        assert_eq!(lost(&board), [psn]);
        let (i, _) = board.next_lost().expect("the probe");
        board.resent(i, at(now));
    }

    // The oldest has come, once or twice, and the peer goes on with the others.
    board.passes(101, at(3000), RTT, &mut reordering);
    assert_eq!(board.losses(at(3000), RTT, reordering), (0, None));
    board.passes(104, at(3010), RTT, &mut reordering);
    assert_eq!(board.losses(at(3010), RTT, reordering), (0, None));
    // The last has come, without those before it.
    board.came([107].into_iter(), at(3020), RTT, &mut reordering);
    assert_eq!(
        board.losses(at(3020), RTT, reordering),
        (1000, Some(at(3030)))
    );
    assert_eq!(lost(&board), [104]);
    assert_eq!(reordering, Reordering::default());
}
