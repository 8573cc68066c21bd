//! A neighbour who keeps changing what is being read. These also run in Miri, which tells of data
//! races and of bad references.

use std::time::{Duration, Instant};

use ferroce_wire::{Bth, Ext, Header, ICRC_LEN, Reth, opcode};

use super::*;

/// Bytes of payload of the long packet.
const PAYLOAD: usize = 64;
const LEN: usize = MAX_HEADER + PAYLOAD;

fn atomics(bytes: &[u8]) -> Vec<AtomicU8> {
    bytes.iter().map(|byte| AtomicU8::new(*byte)).collect()
}

fn packet(header: &Header) -> [u8; LEN] {
    let mut bytes = [0x5a; LEN];
    header.emit(&mut bytes);
    bytes
}

/// Two packets of one length, of which either has other headers, and so its payload elsewhere.
fn packets() -> [[u8; LEN]; 2] {
    let write = Header {
        bth: Bth {
            opcode: opcode::RC_WRITE_ONLY,
            ..Bth::default()
        },
        ext: Ext {
            reth: Some(Reth {
                va: 0x1111_1111_1111_1111,
                rkey: 0x1111_1111,
                len: 0x1111_1111,
            }),
            ..Ext::default()
        },
    };

    let send = Header {
        bth: Bth {
            opcode: opcode::RC_SEND_ONLY,
            pad: 3,
            dest_qp: 0x77,
            ..Bth::default()
        },
        ext: Ext::default(),
    };

    [packet(&write), packet(&send)]
}

#[test]
fn any_start_and_length_is_copied() {
    let bytes: Vec<u8> = (1..=80).collect();
    let from = atomics(&bytes);
    for start in 0..8 {
        for len in 0..60 {
            let mut to = [0; 50];
            let copied = copy(&from[start..start + len], &mut to);
            assert_eq!(copied, len.min(50));
            assert_eq!(to[..copied], bytes[start..start + copied]);
            assert!(to[copied..].iter().all(|byte| *byte == 0));
        }
    }
}

/// What is checked is what is used: opcode, headers, pad and the payload's place are those of one
/// look, whatever is in the memory before and after it.
#[test]
fn headers_that_change_while_they_are_read_are_read_once() {
    let rounds = if cfg!(miri) { 60 } else { 200_000 };

    // On one processor the writer may have to wait for a turn of its own.
    let until = Instant::now() + Duration::from_secs(60);
    let both = packets();
    let words = both.map(|bytes| as_words(&bytes));

    // Written by words, as it is read: atomics of several sizes may not race within one process,
    // and here both ends are in one.
    let memory = words[0].map(AtomicU32::new);
    let read = || {
        let mut seen = [0; 2];
        let mut round = 0;
        let unseen = |seen: &[u32; 2]| seen.contains(&0) && !cfg!(miri) && Instant::now() < until;
        while round < rounds || unseen(&seen) {
            round += 1;
            // What lies between the two may be no packet.
            let Ok(packet) = parse(Octets::Shared(bytes_of(&memory))) else {
                continue;
            };
            assert_consistent(&packet);
            seen[usize::from(packet.bth.opcode == opcode::RC_SEND_ONLY)] += 1;
        }
        seen
    };

    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        for words in words.iter().cycle() {
            if reader.is_finished() {
                break;
            }
            for (to, from) in memory.iter().zip(words).take(MAX_HEADER / 4) {
                to.store(*from, Ordering::Relaxed);
            }
        }
        reader.join().expect("consistent packets")
    });

    assert!(cfg!(miri) || seen.iter().all(|n| *n > 0), "{seen:?}");
}

fn as_words(bytes: &[u8; LEN]) -> [u32; LEN / 4] {
    std::array::from_fn(|n| u32::from_ne_bytes(*bytes[4 * n..].first_chunk().unwrap()))
}

fn bytes_of(words: &[AtomicU32]) -> &[AtomicU8] {
    // SAFETY: as many bytes, which may change at any moment in either view.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn assert_consistent(packet: &Packet<'_>) {
    assert_eq!(packet.info.opcode, packet.bth.opcode);
    assert_eq!(packet.ext.headers(), packet.info.headers);
    let pad = usize::from(packet.bth.pad);
    let header = usize::from(packet.info.header_len);
    assert_eq!(header + packet.payload.len() + pad + ICRC_LEN, LEN);
}

/// The copy of a header is neither looked at before it is whole nor made again: a change between
/// copy and use does nothing.
#[test]
fn a_packet_that_was_taken_apart_does_not_change() {
    let [write, send] = packets();
    let memory = atomics(&write);
    let packet = parse(Octets::Shared(&memory)).unwrap();
    for (to, from) in memory.iter().zip(send) {
        to.store(from, Ordering::Relaxed);
    }
    assert_consistent(&packet);
    assert_eq!(packet.bth.opcode, opcode::RC_WRITE_ONLY);
    assert_eq!(packet.ext.reth.unwrap().rkey, 0x1111_1111);
}
