//! A daemon as a whole: nonsense from clients, rivals, counters in the image.

mod common;

use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use common::{TestDaemon, eventually, settings};
use ferroce_cabi::ucma_frame::{self as frames, Request};
use ferroce_control::protocol::{MAX_MESSAGE, Reply, ServerBody, ServerMessage, VERSION};
use ferroce_control::seqpacket::{self, Wait};
use ferroce_control::{Client, Counter, RuntimeDir};
use ferroced::config::LinkLayer;
use ferroced::{Config, Daemon, DaemonError};
use zerocopy::{FromBytes, IntoBytes};

/// What the daemon answers to some bytes: the errno of its refusal, or `None` if it said nothing.
fn answer(daemon: &TestDaemon, bytes: &[u8], fds: usize) -> Option<i32> {
    let socket = seqpacket::connect(&daemon.dir.socket()).unwrap();
    let file = fs::File::open("/dev/null").unwrap();
    let fds = vec![file.as_fd(); fds];
    seqpacket::send(&socket, bytes, &fds, Wait::Block).unwrap();
    let mut buffer = seqpacket::buffer();
    let datagram = seqpacket::receive(&socket, &mut buffer, Wait::Block).ok()?;
    match ServerMessage::decode(&buffer[..datagram.len]).unwrap().body {
        ServerBody::Reply {
            reply: Reply::Error { errno, .. },
            ..
        } => Some(errno),
        _ => None,
    }
}

#[test]
fn nonsense_is_answered_and_changes_nothing() {
    let daemon = TestDaemon::start(&["127.0.7.30"]);
    let mut steady = daemon.connect();
    steady.attach("steady").unwrap();
    let deep = "[".repeat(100_000);
    let long = vec![b' '; MAX_MESSAGE + 1];
    let attach = format!(r#"{{"v":{VERSION},"id":1,"request":{{"attach":{{"name":7}}}}}}"#);
    for bytes in [
        &b"\0"[..],
        b"{}",
        b"null",
        b"\xff\xff\xff\xff",
        br#"{"v":1}"#,
        br#"{"v":1,"id":-1,"request":"gids"}"#,
        br#"{"v":1,"id":1,"request":{"receive_socket":{"gid_index":70000}}}"#,
        br#"{"v":4294967295,"id":1,"request":"gids"}"#,
        attach.as_bytes(),
        deep.as_bytes(),
        &long,
    ] {
        assert_eq!(
            answer(&daemon, bytes, 0),
            Some(libc::EPROTO),
            "{:?}",
            bytes.get(..40)
        );
    }

    assert_eq!(
        answer(&daemon, b"nonsense with descriptors", 4),
        Some(libc::EPROTO)
    );

    // A sensible request with a stray descriptor is a sensible request.
    let gids = format!(r#"{{"v":{VERSION},"id":1,"request":"gids"}}"#);
    assert_eq!(answer(&daemon, gids.as_bytes(), 1), None);
    assert_eq!(steady.gids().unwrap().len(), 1);
    eventually("only one is left", || {
        daemon.connect().status().unwrap().clients.len() == 1
    });
}

#[test]
fn a_client_that_takes_no_answers_is_dropped() {
    let daemon = TestDaemon::start(&["127.0.7.31"]);
    let socket = seqpacket::connect(&daemon.dir.socket()).unwrap();
    let status = format!(r#"{{"v":{VERSION},"id":1,"request":"status"}}"#);
    eventually("the daemon has had enough", || {
        seqpacket::send(&socket, status.as_bytes(), &[], Wait::Not)
            .is_err_and(|errno| errno == rustix::io::Errno::PIPE)
    });
    assert_eq!(daemon.connect().gids().unwrap().len(), 1);
}

#[test]
fn asked_to_stay_it_leaves_only_when_it_is_asked_to() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let mut wanted = settings(&["127.0.7.49"]);
    wanted.idle_exit = Some(Duration::from_secs(1));
    let daemon = Daemon::start(dir.clone(), wanted).unwrap();
    let mut client = Client::connect(&dir).unwrap();
    let thread = std::thread::spawn(move || daemon.run(None));

    let remembered = || fs::read_to_string(dir.settings()).unwrap();
    assert!(remembered().contains("idle_exit"), "{}", remembered());
    client.stay().unwrap();
    eventually("that it stays is remembered", || {
        !remembered().contains("idle_exit")
    });
    drop(client);

    // Nothing can be waited for here but that it does not happen.
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(!thread.is_finished());
    Client::connect(&dir).unwrap().shutdown().unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn who_only_looks_does_not_keep_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let mut wanted = settings(&["127.0.7.52"]);
    wanted.idle_exit = Some(Duration::from_secs(1));
    let daemon = Daemon::start(dir.clone(), wanted).unwrap();
    let thread = std::thread::spawn(move || daemon.run(None));

    // One is left open, and another comes again and again.
    let mut display = Client::connect(&dir).unwrap();
    display.status().unwrap();
    eventually("it leaves", || {
        let looked = Client::connect(&dir).and_then(|mut client| client.status());
        looked.is_err()
    });
    thread.join().unwrap().unwrap();
}

#[test]
fn one_directory_has_one_daemon() {
    let daemon = TestDaemon::start(&["127.0.7.32"]);
    let error = Daemon::start(daemon.dir.clone(), settings(&["127.0.7.33"])).unwrap_err();
    assert!(
        matches!(error, DaemonError::AlreadyRunning { .. }),
        "{error}"
    );
    // And the rival has done no harm.
    assert_eq!(daemon.connect().gids().unwrap().len(), 1);
}

#[test]
fn a_taken_port_is_told_and_nothing_is_left_behind() {
    let _other = UdpSocket::bind("127.0.7.34:4791").unwrap();
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let error = Daemon::start(dir.clone(), settings(&["127.0.7.35", "127.0.7.34"])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("UDP port 4791 of 127.0.7.34 is taken"),
        "{error}"
    );
    assert!(!dir.path().exists());
    // The address that could be had is free again.
    drop(Daemon::start(dir, settings(&["127.0.7.35"])).unwrap());
}

/// Of a cable's end an address by itself says nothing, and no other address can be chosen.
#[test]
fn a_taken_end_of_a_cable_is_told_as_such() {
    let _other = UdpSocket::bind("127.0.7.36:7101").unwrap();
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let config = Config {
        link_layer: Some(LinkLayer::Infiniband),
        cable: vec!["127.0.7.36:7101=127.0.7.37:7101".parse().unwrap()],
        ..Config::default()
    };
    let error = Daemon::start(dir, config.try_into().unwrap()).unwrap_err();
    let message = error.to_string();
    let end = "a cable cannot end at 127.0.7.36:7101: that UDP endpoint is taken";
    assert!(message.starts_with(end), "{message}");
    assert!(!message.contains("--addr"), "{message}");
}

#[test]
fn what_a_dead_daemon_left_is_no_hindrance() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let _premises = dir.prepare().unwrap();
    drop(seqpacket::listen(&dir.socket(), 1).unwrap());
    fs::write(dir.lock(), "999999999\n").unwrap();
    // Another device's, and the list in which it says so.
    let ghost = dir.sysfs().join("class/infiniband/ghost0");
    fs::create_dir_all(dir.sysfs().join("class/infiniband")).unwrap();
    std::os::unix::fs::symlink("/nowhere", &ghost).unwrap();
    let list = "sys/class/infiniband/ghost0\n";
    fs::write(dir.path().join("ferroced.image"), list).unwrap();
    let daemon = Daemon::start(dir.clone(), settings(&["127.0.7.36"])).unwrap();
    assert_eq!(daemon.info().name, "ferroce0");
    assert!(fs::symlink_metadata(ghost).is_err());
}

#[test]
fn counters_appear_in_the_image_and_outlive_their_client() {
    let daemon = TestDaemon::start(&["127.0.7.37"]);
    let port = daemon.dir.sysfs().join("class/infiniband/ferroce0/ports/1");
    let read = |file: &str| fs::read_to_string(port.join(file)).unwrap();
    assert_eq!(read("hw_counters/duplicate_request"), "0\n");
    let mut client = daemon.connect();
    let page = client.attach("counter").unwrap().counters;
    page.add(Counter::DuplicateRequest, 3);
    page.add(Counter::RxBytes, 4000);
    eventually("the image shows it", || {
        read("hw_counters/duplicate_request") == "3\n"
    });
    assert_eq!(read("counters/port_rcv_data"), "1000\n");

    // The last words count too.
    page.add(Counter::DuplicateRequest, 4);
    drop(client);
    eventually("the image shows the rest", || {
        read("hw_counters/duplicate_request") == "7\n"
    });
    assert_eq!(daemon.counter("duplicate_request"), 7);
}

#[test]
fn a_program_of_another_build_is_told_so() {
    let daemon = TestDaemon::start(&["127.0.7.38"]);
    for (socket, kind) in [
        (daemon.dir.rdma_cm(), frames::OPEN),
        (daemon.dir.umad(), frames::UMAD_OPEN),
    ] {
        let socket = seqpacket::connect(&socket).unwrap();
        let request = Request {
            version: frames::VERSION + 1,
            kind,
            ..Request::default()
        };
        seqpacket::send(&socket, request.as_bytes(), &[], Wait::Block).unwrap();
        let mut buffer = seqpacket::buffer();
        let datagram = seqpacket::receive(&socket, &mut buffer, Wait::Block).unwrap();
        let reply = frames::Reply::read_from_bytes(&buffer[..datagram.len]).unwrap();
        assert_eq!(reply.result, frames::OTHER_VERSION);
        assert_eq!(reply.answer_len, frames::VERSION);
        assert!(datagram.fds.is_empty());

        // And that was all.
        assert!(seqpacket::receive(&socket, &mut buffer, Wait::Block).is_err());
    }
}
