//! Tests of a ring: what is put in is taken out, and a hostile end harms nobody.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use super::record::{Medium, Next, Packet, Record, Verbs, VerbsKind, What};
use super::*;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

fn wish(snap: u32) -> CaptureWish {
    CaptureWish {
        room: LEAST_ROOM,
        snap,
        verbs: true,
    }
}

fn ring(snap: u32) -> (CaptureHead, CaptureWriter, CaptureReader) {
    let (head, memory) = CaptureHead::create(&wish(snap)).unwrap();
    let reader = CaptureReader::open(memory.try_clone().unwrap()).unwrap();
    (head, CaptureWriter::open(memory).unwrap(), reader)
}

fn packet(time: u64, original: usize) -> Record {
    Record {
        time,
        qpn: 0x0f_0102,
        what: What::Packet(Packet {
            incoming: time.is_multiple_of(2),
            refused: time.is_multiple_of(3),
            medium: Medium::Udp(49_153),
            original: original as u32,
            from: Ipv4Addr::new(127, 0, 0, 1).into(),
            to: "fe80::7".parse().unwrap(),
            traffic_class: 3,
            hop_limit: 64,
            id: 9,
            flow_label: 0x1_2345,
        }),
    }
}

#[test]
fn records_survive_the_round_trip() {
    let verbs = Record {
        time: u64::MAX,
        qpn: 7,
        what: What::Verbs(Verbs {
            kind: VerbsKind::Completion,
            wr_id: u64::MAX - 1,
            opcode: 128,
            status: 12,
            bytes: 1 << 40,
        }),
    };
    let (_head, mut writer, mut reader) = ring(u32::MAX);
    writer.put(&packet(1, 5), b"hello");
    writer.put(&verbs, b"");

    let mut taken = Vec::new();
    reader
        .take(|record, data| taken.push((*record, data.to_vec())))
        .unwrap();

    assert_eq!(
        taken,
        [(packet(1, 5), b"hello".to_vec()), (verbs, Vec::new())]
    );
    assert_eq!((reader.lost(), reader.is_broken()), (0, false));
}

#[test]
fn no_more_is_kept_than_is_wanted() {
    let (_head, mut writer, mut reader) = ring(20);
    writer.put(&packet(1, 100), &[7; 100]);
    let mut kept = Vec::new();
    reader
        .take(|record, data| kept.push((*record, data.len())))
        .unwrap();
    assert_eq!(kept, [(packet(1, 100), 20)]);
}

#[test]
fn what_finds_no_room_is_counted() {
    let (_head, mut writer, mut reader) = ring(u32::MAX);
    let fit = LEAST_ROOM as usize / record::span(1000);
    for n in 0..fit + 5 {
        writer.put(&packet(n as u64, 1000), &[n as u8; 1000]);
    }
    let mut taken = 0;
    reader.take(|_, _| taken += 1).unwrap();
    assert_eq!((taken, reader.lost()), (fit, 5));

    // There is room again.
    writer.put(&packet(1, 1000), &[1; 1000]);
    reader.take(|_, _| taken += 1).unwrap();
    assert_eq!((taken, reader.lost()), (fit + 1, 5));
}

#[test]
fn each_end_hears_of_the_others() {
    let (head, writer, reader) = ring(1);
    assert!(!writer.is_over() && !reader.is_gone());
    head.end();
    assert!(writer.is_over() && !reader.is_gone());
    drop(writer);
    assert!(reader.is_gone());
}

#[test]
fn a_reader_that_says_what_cannot_be_gets_nothing() {
    let (head, mut writer, _reader) = ring(u32::MAX);
    for position in [1, 1 << 40, u64::MAX - 100_000] {
        head.word(HEAD).store(position, Ordering::Release);
        writer.put(&packet(1, 8), &[1; 8]);
    }
    assert_eq!(head.word(TAIL).load(Ordering::Relaxed), 0);
    assert_eq!(head.word(LOST).load(Ordering::Relaxed), 3);
}

#[test]
fn a_program_that_says_what_cannot_be_is_not_read() {
    for (tail, bytes) in [
        (8, [0xff; 200]),
        (u64::MAX - 7, [0; 200]),
        (7, [0; 200]),
        (LEAST_ROOM as u64, [0; 200]),
        (LEAST_ROOM as u64, [1; 200]),
    ] {
        let (head, memory) = CaptureHead::create(&wish(u32::MAX)).unwrap();
        rustix::io::pwrite(&memory, &bytes, PAGE as u64).unwrap();
        let mut reader = CaptureReader::open(memory).unwrap();
        head.word(TAIL).store(tail, Ordering::Release);
        reader.take(|_, _| panic!("a record")).unwrap();
        assert!(reader.is_broken(), "{tail}");
        assert_eq!(reader.take(|_, _| panic!("a record")).unwrap(), 0);
    }
}

#[test]
fn rings_of_other_sizes_are_refused_and_sizes_are_fixed() {
    for room in [0, 4096, LEAST_ROOM + 1, MOST_ROOM + 4096] {
        let wish = CaptureWish {
            room,
            ..wish(u32::MAX)
        };
        assert!(CaptureHead::create(&wish).is_err(), "{room}");
    }
    let (_head, memory) = CaptureHead::create(&wish(u32::MAX)).unwrap();
    assert!(rustix::fs::ftruncate(&memory, 0).is_err());
    let file = || tempfile::tempfile().unwrap().into();
    assert!(CaptureReader::open(file()).is_err());
    assert!(CaptureWriter::open(file()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    /// Whatever is put in comes out once, whole and in order, or is counted as lost.
    #[test]
    fn nothing_is_lost_unseen(steps in prop::collection::vec((0usize..9000, any::<bool>()), 1..120)) {
        let (_head, mut writer, mut reader) = ring(u32::MAX);
        let mut expected = VecDeque::new();
        let mut lost = 0;

        for (n, (len, take)) in steps.into_iter().enumerate() {
            let record = packet(n as u64, len);
            writer.put(&record, &vec![n as u8; len]);
            if reader.lost() == lost {
                expected.push_back(record);
            }
            lost = reader.lost();
            if take {
                reader.take(|record, data| {
                    let What::Packet(packet) = record.what else { panic!() };
                    assert_eq!(expected.pop_front(), Some(*record));
                    assert_eq!(data, vec![record.time as u8; packet.original as usize]);
                }).unwrap();
                assert!(expected.is_empty() && !reader.is_broken());
            }
        }

        prop_assert_eq!(reader.lost(), lost);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Next::Record(_, data, span) = record::next(&bytes) {
            assert!(data.len() < span && span <= bytes.len());
        }
    }
}
