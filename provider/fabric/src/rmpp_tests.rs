//! Tests of `rmpp`.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

fn message(len: usize) -> Vec<u8> {
    let mut message: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
    message[..4].copy_from_slice(&[1, 3, 2, 0x92]);
    message[24..HEADER_END].fill(0);
    message
}

/// Carries a message over a link that loses what `lost` says of each MAD.
fn carry(message: &[u8], mut lost: impl FnMut() -> bool) -> Option<Vec<u8>> {
    let mut sender = Sender::new(message.to_vec())?;
    let mut receiver = Receiver::default();
    let mut got = None;
    for _ in 0..10_000 {
        let mut any = false;
        let mut answers = Vec::new();
        while let Some(mad) = sender.next() {
            any = true;
            if lost() {
                continue;
            }
            let taken = receiver.take(&mad);
            if let Some(end) = taken.end {
                assert!(got.is_none(), "a message came twice");
                got = Some(end.ok()?);
            }
            answers.extend(taken.answer.filter(|_| !lost()));
        }

        for answer in answers {
            match sender.answered(&answer) {
                Progress::Done => return got,
                Progress::Going | Progress::Waiting | Progress::Old => {}
                other => panic!("{other:?}"),
            }
        }

        if !any {
            sender.again();
        }
    }

    panic!("it never ends");
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn whatever_is_lost_comes_in_the_end(len in 56usize..20_000, seed in any::<u64>()) {
        let sent = message(len);
        let mut state = seed | 1;
        let mut lost = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 10 < 3
        };
        let mut got = carry(&sent, &mut lost).unwrap();
        // The RMPP header is that of the first segment.
        got[24..HEADER_END].fill(0);
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn nothing_that_comes_panics(mads in proptest::collection::vec(any::<[u8; 32]>(), 1..40)) {
        let mut receiver = Receiver::default();
        let mut sender = Sender::new(message(3000)).unwrap();
        sender.next();
        for front in mads {
            let mut mad = [0; mad::LEN];
            mad[..32].copy_from_slice(&front);
            mad[1] = 3;
            let _ = receiver.take(&mad);
            let _ = sender.answered(&mad);
            let _ = sender.next();
        }
    }
}

#[test]
fn the_first_and_the_last_segment_tell_the_length() {
    // Two whole segments of 200 bytes and one of 3.
    let mut sender = Sender::new(message(56 + 403)).unwrap();
    let first = sender.next().unwrap();
    assert!(sender.next().is_none(), "until the first is acknowledged");
    assert_eq!((first[24], first[25], first[26]), (1, 1, 3));
    assert_eq!((word(&first, 28), word(&first, 32)), (1, 403 + 3 * 20));
    let ack = Receiver::default().take(&first).answer.unwrap();
    assert_eq!((ack[3], ack[25], word(&ack, 28)), (0x12, 2, 1));
    assert_eq!(word(&ack, 32), 1 + WINDOW);
    assert_eq!(sender.answered(&ack), Progress::Going);
    sender.next().unwrap();
    let last = sender.next().unwrap();
    assert_eq!((last[26], word(&last, 28), word(&last, 32)), (5, 3, 23));
}

#[test]
fn answers_have_the_headers_of_the_class() {
    // A vendor's: the OUI is behind a reserved byte. The administrator's: SM_Key and what follows.
    for (class, headers) in [(0x30, 40), (0x4f, 40), (0x03, 56)] {
        let mut sent = message(500);
        sent[1] = class;
        let segment = Sender::new(sent.clone()).unwrap().next().unwrap();
        let ack = Receiver::default().take(&segment).answer.unwrap();
        for answer in [ack, abort(&segment, Abort::BadType)] {
            assert_eq!(answer[HEADER_END..headers], sent[HEADER_END..headers]);
            assert_eq!(answer[headers..], [0; mad::LEN][headers..]);
        }
    }
}

#[test]
fn what_makes_no_sense_is_aborted() {
    let mut mad = Sender::new(message(100)).unwrap().next().unwrap();
    mad[24] = 2;
    let taken = Receiver::default().take(&mad);
    assert!(matches!(taken.end, Some(Err(Abort::Version))));
    assert_eq!(taken.answer.map(|a| (a[25], a[27])), Some((4, 125)));
    let mut sender = Sender::new(message(1000)).unwrap();
    let first = sender.next().unwrap();
    let mut ack = Receiver::default().take(&first).answer.unwrap();
    set_word(&mut ack, 28, 3);
    assert_eq!(sender.answered(&ack), Progress::Abort(Abort::SegmentTooBig));
    set_word(&mut ack, 32, 1);
    assert_eq!(
        sender.answered(&ack),
        Progress::Abort(Abort::WindowTooSmall)
    );
}
