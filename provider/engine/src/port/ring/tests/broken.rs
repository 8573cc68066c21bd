//! Ends that were killed, and positions that cannot be.

use super::*;

/// A program that was killed, or whose wild pointer met its ring.
#[test]
fn a_position_left_corrupt_is_not_inherited() {
    for corrupt in corrupt_positions() {
        let fds = InboxFds::create().unwrap();
        let inbox = Inbox::new(fds.duplicate().unwrap().memory).unwrap();
        let mut ends = Rings::default();
        let open = || RingSender::open(fds.duplicate().unwrap(), 4, Arc::default()).unwrap();
        let last = open();
        put(&last, &[1; 10]).unwrap();
        assert_eq!(take(&inbox, &mut ends, usize::MAX).len(), 1);
        corrupt(&last.memory);
        drop(last);
        comes_through_again(&open(), &inbox, &mut ends);
    }
}

#[test]
fn a_position_that_becomes_corrupt_is_made_good() {
    for corrupt in corrupt_positions() {
        let (inbox, _wake, rings) = inbox(&[4]);
        let mut ends = Rings::default();
        put(&rings[0], &[1; 10]).unwrap();
        assert_eq!(take(&inbox, &mut ends, usize::MAX).len(), 1);
        corrupt(&rings[0].memory);
        comes_through_again(&rings[0], &inbox, &mut ends);
    }
}

type Corrupt = Box<dyn Fn(&RingMemory)>;

fn corrupt_positions() -> Vec<Corrupt> {
    let values = [
        0,
        1,
        63,
        RING_BYTES as u64,
        1 << 40,
        u64::MAX - 63,
        u64::MAX,
    ];

    let of = |word: fn(&RingMemory) -> &std::sync::atomic::AtomicU64| {
        values.map(move |value| -> Corrupt {
            Box::new(move |memory| word(memory).store(value, Ordering::SeqCst))
        })
    };

    let each = [
        of(RingMemory::tail),
        of(RingMemory::head),
        of(RingMemory::restart),
    ];
    each.into_iter().flatten().collect()
}

/// After a few packets that are lost all come, enough to go round the ring.
fn comes_through_again(ring: &RingSender, inbox: &Inbox, ends: &mut Rings) {
    let bytes = pattern(5, 50_000);
    let lost = (0..).take_while(|_| {
        let refused = put(ring, &bytes).is_err();
        let mut intact = 0;
        let each = |arrived: Arrived<'_>| {
            intact += usize::from(arrived.bytes == bytes[..]);
            true
        };
        inbox.take(ends, each, || {});
        refused || intact == 0
    });

    assert!(lost.take(5).count() < 5, "nothing comes through");
    for _ in 0..100 {
        put(ring, &bytes).unwrap();
        put(ring, &bytes).unwrap();
        assert_eq!(take(inbox, ends, usize::MAX), [&bytes[..], &bytes[..]]);
    }
}

#[test]
fn what_is_not_used_for_a_while_has_no_memory() {
    let fds = InboxFds::create().unwrap();
    let inbox = Inbox::new(fds.duplicate().unwrap().memory).unwrap();
    let mut ends = Rings::default();
    let holds = Arc::new(AtomicBool::new(false));
    let ring = RingSender::open(fds.duplicate().unwrap(), 4, holds.clone()).unwrap();
    let file = std::fs::File::from(fds.duplicate().unwrap().memory);
    let blocks = || file.metadata().unwrap().blocks();
    while put(&ring, &pattern(1, 60_000)).is_ok() {}
    let full = blocks();
    assert!(full > RING_BYTES as u64 / 512 - 256 && holds.load(Ordering::Relaxed));

    assert!(
        ring.give_back() && ring.give_back(),
        "there is something in it"
    );

    let n = take(&inbox, &mut ends, usize::MAX).len();
    assert!(n > 1 && !ring.give_back());
    assert!(blocks() < 64, "{} blocks of {full}", blocks());

    put(&ring, &pattern(2, 60_000)).unwrap();
    assert!(ring.give_back(), "just used");
    assert_eq!(take(&inbox, &mut ends, usize::MAX), [pattern(2, 60_000)]);
    assert!(!ring.give_back() && blocks() < 64);
}

/// A sender and a receiver that sleeps whenever he finds nothing: a wake-up that is lost would end
/// this.
#[test]
fn nobody_sleeps_through_a_record() {
    const RECORDS: u32 = 200_000;

    let (inbox, wake, rings) = inbox(&[5, 6]);
    let end = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|threads| {
        for ring in &rings {
            threads.spawn(move || {
                for n in 0..RECORDS {
                    while put(ring, &n.to_ne_bytes()).is_err() {
                        assert!(Instant::now() < end);
                        std::thread::yield_now();
                    }
                    if n % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }

        let mut ends = Rings::default();
        let (mut sums, mut count, mut sleeps) = ([0u64; 2], 0, 0);
        while count < 2 * RECORDS {
            for record in take(&inbox, &mut ends, 16) {
                let n = u32::from_ne_bytes(record[..].try_into().unwrap());
                sums[0] += u64::from(n);
                sums[1] ^= u64::from(n);
                count += 1;
            }

            if inbox.falling_asleep() && count < 2 * RECORDS {
                let mut poll = libc::pollfd {
                    fd: wake.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                };
                // SAFETY: one valid pollfd, and 8 bytes to read into.
                unsafe {
                    assert_eq!(
                        libc::poll(&mut poll, 1, 30_000),
                        1,
                        "nobody woke the receiver"
                    );
                    libc::read(wake.as_raw_fd(), (&raw mut sleeps).cast(), 8);
                }
            }

            inbox.awake();
        }

        let all = u64::from(RECORDS) * u64::from(RECORDS - 1) / 2;
        assert_eq!(sums, [2 * all, 0]);
    });
}
