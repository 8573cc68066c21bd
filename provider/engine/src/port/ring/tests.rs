mod broken;

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferroce_control::{InboxFds, RingMemory};
use ferroce_wire::Octets;

use super::copying::Copying;
use super::*;
use crate::memory::guard;
use crate::tuning::{RING_RESTART, RING_WINDOW};

const LABEL: Label = Label {
    from: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    to: IpAddr::V6(Ipv6Addr::LOCALHOST),
    traffic_class: 5,
    hop_limit: 64,
};

const RUN: Form = Form::Packets(Some(4096));

/// An inbox, and the ends of the rings of some slots.
fn inbox(slots: &[u8]) -> (Inbox, OwnedFd, Vec<RingSender>) {
    let fds = InboxFds::create().unwrap();
    let outgoing = slots
        .iter()
        .map(|slot| RingSender::open(fds.duplicate().unwrap(), *slot, Arc::default()).unwrap());
    let outgoing = outgoing.collect();
    (Inbox::new(fds.memory).unwrap(), fds.wake, outgoing)
}

fn put(ring: &RingSender, bytes: &[u8]) -> io::Result<()> {
    let (a, b) = bytes.split_at(bytes.len() / 3);
    let piece = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr() as *mut _,
        iov_len: bytes.len(),
    };
    ring.send(&LABEL, &[piece(a), piece(b)], RUN)
}

fn copy_of(octets: Octets<'_>) -> Vec<u8> {
    let mut bytes = vec![0; octets.len()];
    octets.copy_to(&mut bytes);
    bytes
}

/// All that is there, with no more than `limit` records.
fn take(inbox: &Inbox, rings: &mut Rings, limit: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let each = |arrived: Arrived<'_>| {
        assert_eq!((arrived.label, arrived.form), (LABEL, RUN));
        got.push(copy_of(arrived.bytes));
        got.len() < limit
    };
    inbox.take(rings, each, || panic!("a ring makes no sense"));
    got
}

fn pattern(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n * 7 + i * 13 + i / 256) as u8).collect()
}

#[test]
fn records_of_every_length_come_out_in_order_also_across_the_end() {
    every_length(Copying::new());
}

#[test]
fn so_they_do_past_the_caches() {
    every_length(Copying::past_caches());
}

fn every_length(copying: Copying) {
    let (inbox, _wake, rings) = inbox(&[200]);
    rings[0].position.lock().copying = copying;
    let mut ends = Rings::default();
    let lengths: Vec<_> = (0..400).map(|n| (n * n * 7 + n) % 65_508).collect();
    let mut sent = 0;
    for (n, len) in lengths.iter().enumerate() {
        put(&rings[0], &pattern(n, *len)).unwrap();
        sent += len;
        if n % 3 != 2 {
            continue;
        }
        for (k, bytes) in take(&inbox, &mut ends, usize::MAX).iter().enumerate() {
            assert_eq!(*bytes, pattern(n - 2 + k, lengths[n - 2 + k]));
        }
        assert_eq!(rings[0].in_flight(), 0);
        assert!(!inbox.is_marked());
    }

    assert!(sent > 3 * RING_BYTES);
}

/// What a polling program finds in one look after a long request, which an ACK follows.
#[test]
fn a_stretch_is_seen_with_what_follows_it() {
    let (inbox, _wake, rings) = inbox(&[7]);
    let mut ends = Rings::default();
    let bytes = pattern(1, 9000);
    let piece = [libc::iovec {
        iov_base: bytes.as_ptr() as *mut _,
        iov_len: bytes.len(),
    }];
    let mut lengths = || {
        let mut lengths = Vec::new();
        let each = |arrived: Arrived<'_>| {
            lengths.push(arrived.bytes.len());
            true
        };
        inbox.take(&mut ends, each, || panic!("a ring makes no sense"));
        lengths
    };
    let stretch = || rings[0].send(&LABEL, &piece, Form::Stretch(1024)).unwrap();

    stretch();
    assert_eq!((lengths(), rings[0].in_flight()), (vec![], 0));
    put(&rings[0], &[0; 20]).unwrap();
    assert_eq!(lengths(), [9000, 20]);

    // It is taken out while the next is put in.
    stretch();
    stretch();
    assert_eq!(lengths(), [9000]);
    rings[0].show();
    assert_eq!(lengths(), [9000]);
    rings[0].show();
    assert!(!inbox.is_marked());
}

#[test]
fn a_stretch_comes_with_the_path_mtu_of_its_packets() {
    let (inbox, _wake, rings) = inbox(&[7]);
    let mut ends = Rings::default();
    // The longest are longer than any datagram.
    for (n, len) in [1, 12, 4124, 65_536 + 28, 131_072 + 28]
        .into_iter()
        .enumerate()
    {
        let bytes = pattern(n, len);
        let piece = libc::iovec {
            iov_base: bytes.as_ptr() as *mut _,
            iov_len: len,
        };
        rings[0]
            .send(&LABEL, &[piece], Form::Stretch(1024))
            .unwrap();
        assert!(!inbox.is_marked());
        rings[0].show();
        let mut got = None;
        let each = |arrived: Arrived<'_>| {
            assert_eq!(arrived.label, LABEL);
            got = Some((arrived.form, copy_of(arrived.bytes)));
            true
        };
        inbox.take(&mut ends, each, || panic!("a ring makes no sense"));
        assert_eq!(got, Some((Form::Stretch(1024), bytes)));
        assert_eq!(rings[0].in_flight(), 0);
    }
}

#[test]
fn a_full_ring_takes_nothing_until_there_is_room() {
    let (inbox, _wake, rings) = inbox(&[1]);
    let mut ends = Rings::default();
    let bytes = pattern(1, 60_000);
    let mut n = 0;
    while put(&rings[0], &bytes).is_ok() {
        n += 1;
    }
    assert_eq!(n, RING_BYTES / span(60_000));
    let before = rings[0].in_flight();
    let refused = put(&rings[0], &bytes).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(rings[0].in_flight(), before);
    assert_eq!(take(&inbox, &mut ends, 1), [&bytes[..]]);

    // What is free is at both ends now: too little behind, one record's length before.
    put(&rings[0], &bytes).unwrap();
    assert!(put(&rings[0], &bytes).is_err());
    assert_eq!(take(&inbox, &mut ends, usize::MAX).len(), n);
}

#[test]
fn a_few_messages_at_a_time_stay_at_the_start() {
    let (inbox, _wake, rings) = inbox(&[1]);
    let mut ends = Rings::default();
    // What the slot's last owner used is unknown at first.
    while rings[0].give_back() {}
    for n in 0..50_000 {
        put(&rings[0], &pattern(n, 60)).unwrap();
        assert_eq!(take(&inbox, &mut ends, usize::MAX).len(), 1);
        let extent = rings[0].position.lock().extent;
        assert!(extent <= RING_RESTART + 2 * ALIGN, "{extent}");
    }
}

/// Requests and responses, in runs of one packet each, which have the most headers.
#[test]
fn two_windows_fit_wherever_the_ring_was_emptied() {
    const PACKETS: usize = 2 * RING_WINDOW / 4096;

    let (inbox, _wake, rings) = inbox(&[1]);
    let mut ends = Rings::default();
    let packet = [3; 4096 + 60];
    for n in 0..600 {
        for _ in 0..PACKETS {
            put(&rings[0], &packet).unwrap();
        }
        assert_eq!(take(&inbox, &mut ends, usize::MAX).len(), PACKETS);
        // Another place each time.
        for _ in 0..n % 7 {
            put(&rings[0], &pattern(n, 5000)).unwrap();
            take(&inbox, &mut ends, usize::MAX);
        }
    }
}

#[test]
fn no_sender_keeps_another_waiting() {
    let slots = [3, 70, 255];
    let (inbox, _wake, rings) = inbox(&slots);
    let mut ends = Rings::default();
    for _ in 0..10 {
        for (ring, slot) in rings.iter().zip(slots) {
            put(ring, &[slot; 9]).unwrap();
        }
    }

    for round in 0..6 {
        let got = take(&inbox, &mut ends, 2);
        assert_eq!(got, vec![vec![slots[round % 3]; 9]; 2]);
        assert!(inbox.is_marked());
    }

    assert_eq!(take(&inbox, &mut ends, usize::MAX).len(), 18);
    assert!(!inbox.is_marked());
}

#[test]
fn memory_that_is_not_there_sends_nothing() {
    guard::install();
    let (inbox, _wake, rings) = inbox(&[9]);
    let mut ends = Rings::default();
    let own = [1u8; 100];
    let pieces = [
        libc::iovec {
            iov_base: own.as_ptr() as *mut _,
            iov_len: own.len(),
        },
        libc::iovec {
            iov_base: 4096 as *mut _,
            iov_len: 4096,
        },
    ];

    if guard::EFFECTIVE {
        let error = rings[0]
            .send(&LABEL, &pieces, Form::Packets(None))
            .unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        assert!(!inbox.is_marked());
    }

    put(&rings[0], &own).unwrap();
    assert_eq!(take(&inbox, &mut ends, usize::MAX), [&own[..]]);
}

#[test]
fn what_makes_no_sense_is_thrown_away_and_the_ring_goes_on() {
    let (inbox, _wake, rings) = inbox(&[9]);
    let mut ends = Rings::default();
    let ring = &rings[0];
    let tail = |by: u64| ring.memory.tail().fetch_add(by, Ordering::Release);
    let record = |len: u32| {
        // SAFETY: the tail is a multiple of ALIGN inside the ring, where nobody else is now.
        unsafe {
            let tail = ring.memory.tail().load(Ordering::Relaxed);
            let at = place(tail, ring.memory.restart().load(Ordering::Relaxed));
            ring.memory.bytes().add(at).cast::<u32>().write(len)
        };
    };

    let damages: [&dyn Fn(); 6] = [
        &|| {
            tail(7);
        },
        &|| {
            tail(RING_BYTES as u64 + 64);
        },
        &|| {
            tail(u64::MAX - 63);
        },
        &|| {
            record(1 << 30);
            tail(64);
        },
        // longer than what was published
        &|| {
            record(100);
            tail(64);
        },
        // the start of the ring is not published
        &|| {
            record(SKIP);
            tail(64);
        },
    ];

    for damage in damages {
        put(ring, &[1; 10]).unwrap();
        assert_eq!(take(&inbox, &mut ends, usize::MAX).len(), 1);
        damage();
        inbox.head.pending(0).fetch_or(1 << 9, Ordering::SeqCst);
        let mut broken = 0;
        inbox.take(&mut ends, |_| panic!("a record"), || broken += 1);
        assert_eq!(broken, 1);
        // The sender knows nothing of it and goes on where he was: that is one more that makes no
        // sense.
        put(ring, &[2; 10]).unwrap();
        inbox.take(&mut ends, |_| true, || {});
    }

    put(ring, &[3; 10]).unwrap();
    assert_eq!(take(&inbox, &mut ends, usize::MAX), [[3; 10]]);
}

#[test]
fn a_new_owner_of_a_slot_goes_on_where_the_last_one_stopped() {
    let fds = InboxFds::create().unwrap();
    let inbox = Inbox::new(fds.duplicate().unwrap().memory).unwrap();
    let mut ends = Rings::default();
    for n in 0..20 {
        let ring = RingSender::open(fds.duplicate().unwrap(), 4, Arc::default()).unwrap();
        put(&ring, &pattern(n, 30_000)).unwrap();
        if n % 2 == 1 {
            let both = [pattern(n - 1, 30_000), pattern(n, 30_000)];
            assert_eq!(take(&inbox, &mut ends, usize::MAX), both);
        }
        assert!(!ring.is_closed());
    }

    let ring = RingSender::open(fds.duplicate().unwrap(), 4, Arc::default()).unwrap();
    fds.close().unwrap();
    assert!(ring.is_closed());
}
