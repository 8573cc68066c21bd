//! What a program may write to the ring of a capture, whose reader may be root.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ferroce_control::capture::record::{self, Next};
use ferroce_control::capture::{CaptureHead, CaptureReader, CaptureWish, LEAST_ROOM};

/// Where records begin.
const PAGE: u64 = 4096;

/// A ring whose position is the first eight bytes and whose records are the rest. Returns whether a
/// record was taken.
pub fn run(input: &[u8]) -> bool {
    let Some((tail, bytes)) = input.split_first_chunk::<8>() else {
        return false;
    };
    let wish = CaptureWish {
        room: LEAST_ROOM,
        snap: u32::MAX,
        verbs: true,
    };
    let (_head, memory) = CaptureHead::create(&wish).expect("a ring");
    let mut reader = CaptureReader::open(memory.try_clone().expect("a descriptor")).expect("it");
    let file = File::from(memory);
    let len = bytes.len().min(LEAST_ROOM as usize);
    file.write_all_at(&bytes[..len], PAGE).expect("its records");
    file.write_all_at(tail, 0).expect("its position");

    let mut taken = false;
    let read = reader.take(|record, data| {
        taken = true;
        assert!(data.len() < LEAST_ROOM as usize);
        let mut again = record::emit(record, data.len()).to_vec();
        again.extend_from_slice(data);
        again.resize(again.len().next_multiple_of(8), 0);
        assert_eq!(
            record::next(&again),
            Next::Record(*record, data, again.len())
        );
    });
    assert!(read.expect("it is read") <= u64::from(LEAST_ROOM));
    taken
}
