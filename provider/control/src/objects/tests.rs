//! What one side enters the other sees, and nothing that it says is believed.

use super::object::QP;
use super::*;
use crate::Counter;

fn all() -> [Object; 8] {
    let qp = QueuePair {
        number: 0xff_fffe,
        qp_type: 10,
        state: 6,
        port: 8,
        pd: None,
        srq: None,
        remote: 0xab_cdef,
        sq_psn: 0xff_ffff,
        rq_psn: 1,
        row: u16::MAX,
    };

    [
        Object::Context,
        Object::Pd {
            context: 0,
            users: 3,
        },
        Object::Cq {
            context: 7,
            cqe: u32::MAX,
            users: 0,
        },
        Object::Mr {
            pd: MAX_OBJECTS - 1,
            key: u32::MAX,
            len: u64::MAX,
        },
        Object::Srq {
            pd: 1,
            cq: None,
            srq_type: 0,
        },
        Object::Srq {
            pd: 1,
            cq: Some(0),
            srq_type: 2,
        },
        Object::Qp(qp),
        Object::Qp(QueuePair {
            pd: Some(0),
            srq: Some(MAX_OBJECTS - 1),
            ..QueuePair::default()
        }),
    ]
}

#[test]
fn what_a_client_enters_the_daemon_sees() {
    let (daemon, fd) = ObjectTable::create().unwrap();
    let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
    assert!(daemon.objects().is_empty());
    let listings = all().map(|object| client.enter(object));
    let numbered: Vec<_> = (0..).zip(all()).collect();
    assert_eq!(daemon.objects(), numbered);

    listings[1].add_user();
    listings[1].add_user();
    listings[1].remove_user();
    listings[1].set(Object::Pd {
        context: 5,
        users: 99,
    });

    listings[2].set(Object::Context);
    listings[4].remove();
    listings[4].set(Object::Context);
    let seen = daemon.objects();
    assert_eq!(seen.len(), 7);
    let domain = Object::Pd {
        context: 5,
        users: 4,
    };
    assert_eq!((seen[1].1, seen[2].1), (domain, Object::Context));

    // A number is used again.
    let next = client.enter(Object::Context);
    assert_eq!(next.number(), 4);
    drop(listings);
    assert_eq!(daemon.objects(), [(4, Object::Context)]);
}

#[test]
fn of_which_queue_pairs_the_peers_were_heard() {
    let (daemon, fd) = ObjectTable::create().unwrap();
    let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
    let last = client.enter(Object::Context);
    let some = [0, 1, 63, 64, 511, 512, 0x8000, u16::MAX];
    for qp in some {
        client.set_heard(qp, true);
    }
    let heard: Vec<u16> = (0..=u16::MAX).filter(|qp| daemon.heard(*qp)).collect();
    assert_eq!(heard, some);
    client.set_heard(64, false);
    client.set_heard(65, false);
    assert!(daemon.heard(63) && !daemon.heard(64));
    assert_eq!(daemon.objects(), [(last.number(), Object::Context)]);
}

#[test]
fn a_table_cannot_be_shrunk_and_nothing_in_it_is_believed() {
    let (daemon, fd) = ObjectTable::create().unwrap();
    assert!(rustix::fs::ftruncate(&fd, 0).is_err());
    let write = |word: u64, at: usize| {
        rustix::io::pwrite(&fd, &word.to_ne_bytes(), (at * 8) as u64).unwrap();
    };
    write(3, 0);
    write(77, WORDS);
    write(QP, 2 * WORDS);
    write(u64::MAX, 2 * WORDS + 1);
    assert_eq!(daemon.objects().len(), 1);

    // More than there are.
    write(u64::MAX, 0);
    assert_eq!(daemon.objects().len(), 1);
    let file = tempfile::tempfile().unwrap();
    assert!(ObjectTable::from_fd(file.into()).is_err());
}

/// Numbers that are all different, each as large as it may be.
fn attributes() -> QpAttributes {
    QpAttributes {
        dgid: std::array::from_fn(|i| 0xf0 + i as u8),
        path_mtu: 4096,
        timeout: 31,
        retry_cnt: 7,
        rnr_retry: 6,
        min_rnr_timer: 30,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 128,
        access: u32::MAX - 1,
        pkey_index: 0xfff0,
        sgid_index: 255,
        hop_limit: 64,
        max_send_wr: u32::MAX - 2,
        max_recv_wr: u32::MAX - 3,
        max_send_sge: 0xfff1,
        max_recv_sge: 0xfff2,
        max_inline_data: u32::MAX - 4,
        qkey: u32::MAX - 5,
        flow_label: 0xf_ffff,
        dlid: 0xbfff,
        sl: 15,
        traffic_class: 254,
        is_global: true,
        sq_sig_all: false,
        sq_draining: true,
    }
}

fn progress() -> QpProgress {
    QpProgress {
        sends_completed: 1 << 40,
        sends: u32::MAX,
        receives: 1,
        next_psn: 0xff_ffff,
        unacknowledged_psn: 0x80_0001,
        highest_psn: 0xff_fffe,
        expected_psn: 3,
        retries: 7,
        rnr_retries: 6,
        waits_for_receiver: true,
        in_flight: u32::MAX - 1,
        window: u32::MAX,
    }
}

#[test]
fn a_row_says_what_was_counted_and_a_new_queue_pair_finds_none_of_it() {
    let (daemon, fd) = ObjectTable::create().unwrap();
    let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
    let first = client.row([None; 2]).unwrap();
    let neighbour = client.row([None; 2]).unwrap().place();
    assert_eq!((first.place(), neighbour), (0, 1));
    drop(first);
    // Thrice the same one, as it is given back.
    for _ in 0..3 {
        let row = client.row([Some(0), None]).unwrap();
        let qp = row.place();
        assert_eq!(qp, 0);
        for (n, counter) in (1..).zip(QP_COUNTERS) {
            row.count(counter, n);
            row.count(counter, 1 << 40);
        }
        row.count(Counter::CnpHandled, 1);
        row.sent(2, 3000, 17);
        row.received(1, 20, 18);
        row.publish(&progress());
        row.receive_completed();
        row.failed(12, false, 19);
        let (rate, alpha) = (123_456_789, 1 << 20);
        row.paced(Some(Pace { rate, alpha }));
        row.describe(&attributes());
        for (n, what) in (20..).zip(MOMENTS) {
            row.happened(what, n);
        }

        let seen = daemon.numbers(qp);
        let counted: Vec<u64> = seen.counters().map(|(_, n)| n - (1 << 40)).collect();
        let mut wanted: Vec<u64> = (1..=24).collect();
        (wanted[0], wanted[1], wanted[8], wanted[9]) = (3, 3002, 10, 30);
        assert_eq!(counted, wanted);
        assert_eq!(seen.counter(Counter::CnpHandled), 0);
        assert_eq!(seen.progress, progress());
        assert_eq!(
            (seen.last_sent, seen.last_received, seen.receives_completed),
            (17, 18, 1)
        );
        let error = LastError {
            status: 12,
            receive: false,
            at: 19,
        };
        assert_eq!(seen.last_error, Some(error));
        assert_eq!((seen.send_cq, seen.recv_cq), (Some(0), None));
        let (rate, alpha) = (123_456_000, 1 << 20);
        assert_eq!(seen.pace, Some(Pace { rate, alpha }));
        assert_eq!(seen.attributes, attributes());
        assert_eq!(MOMENTS.map(|what| seen.moment(what)), [20, 21, 22, 23]);
    }

    assert_eq!(daemon.numbers(neighbour), QpNumbers::default());
    let again = client.row([None, Some(MAX_OBJECTS - 1)]).unwrap();
    let mut wanted = QpNumbers::default();
    wanted.recv_cq = Some(MAX_OBJECTS - 1);
    assert_eq!((again.place(), daemon.numbers(0)), (0, wanted));
    assert!(!daemon.heard(2) && daemon.objects().is_empty());
}

const MOMENTS: [QpMoment; 4] = [
    QpMoment::SentAgain,
    QpMoment::TimedOut,
    QpMoment::RnrSent,
    QpMoment::RnrReceived,
];

#[test]
fn a_completion_queue_says_what_it_holds_whatever_becomes_of_its_size() {
    let (daemon, fd) = ObjectTable::create().unwrap();
    let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
    let queue = |cqe| Object::Cq {
        context: 0,
        cqe,
        users: 1,
    };
    let listing = client.enter(queue(16));
    let number = listing.number();
    assert_eq!(daemon.cq_numbers(number), CqNumbers::default());

    listing.held(7);
    listing.armed(true);
    let armed = daemon.cq_numbers(number);
    assert!(armed.armed && armed.solicited_only && armed.held == 7);
    listing.armed(false);
    assert!(!daemon.cq_numbers(number).solicited_only);
    listing.set(queue(32));
    listing.notified(3, 99);
    let wanted = CqNumbers {
        held: 7,
        events: 3,
        unpolled: true,
        last_event: 99,
        ..CqNumbers::default()
    };
    assert_eq!(daemon.cq_numbers(number), wanted);
    assert_eq!(daemon.objects(), [(number, queue(32))]);

    listing.polled();
    listing.overrun();
    let ended = daemon.cq_numbers(number);
    assert!(!ended.unpolled && ended.overrun && ended.events == 3);

    // The next object of this number has no numbers of this one.
    listing.remove();
    client.enter(queue(1));
    assert_eq!(daemon.cq_numbers(number), CqNumbers::default());
    assert_eq!(daemon.cq_numbers(u32::MAX), CqNumbers::default());
}

#[test]
fn who_looks_at_a_table_sees_it_and_cannot_write() {
    let (daemon, fd) = ObjectTable::create().unwrap();
    let client = Arc::new(ObjectTable::from_fd(fd.try_clone().unwrap()).unwrap());
    assert!(client.shared().is_none());
    let _listing = client.enter(Object::Context);
    client.row([None; 2]).unwrap().sent(1, 2, 3);

    let shared = daemon.shared().unwrap().try_clone_to_owned().unwrap();
    assert!(rustix::io::pwrite(&shared, &[1], 0).is_err());
    assert_eq!(rustix::fs::fstat(&shared).unwrap().st_mode & 0o077, 0);
    let seen = Seen::from_fd(shared).unwrap();
    assert_eq!(seen.objects(), daemon.objects());
    assert_eq!(seen.numbers(0), daemon.numbers(0));
    assert_eq!(seen.numbers(0).last_sent, 3);
    assert_eq!(seen.cq_numbers(0), CqNumbers::default());

    let file = tempfile::tempfile().unwrap();
    assert!(Seen::from_fd(file.into()).is_err());
}
