//! Slots with real sockets: claiming, steering, death, draining, reuse.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{PATIENCE, TestDaemon, eventually, marks, packet, socket};
use ferroce_control::{Client, ControlError, Counter, RuntimeDir};

#[test]
fn each_client_gets_the_packets_of_its_own_slot() {
    let daemon = TestDaemon::start(&["127.0.7.10", "127.0.7.11"]);
    let (mut a, mut b) = (daemon.connect(), daemon.connect());
    let (at_a, at_b) = (a.attach("a").unwrap(), b.attach("b").unwrap());
    assert_eq!((at_a.slot, at_b.slot), (1, 2));
    assert_eq!(at_a.device, at_b.device);
    assert_eq!(
        (at_a.device.active_mtu, at_a.device.port_active),
        (4096, true)
    );

    assert!(at_a.device.rcvbuf > 100_000);

    // B asks first, so A's sockets exist before anybody has asked for them.
    let gids = a.gids().unwrap();
    assert_eq!(gids.len(), 2);
    let sender = UdpSocket::bind("127.0.7.12:0").unwrap();
    for gid in &gids {
        let of_b = socket(b.receive_socket(gid.index).unwrap());
        let of_a = socket(a.receive_socket(gid.index).unwrap());
        for (slot, mark) in [(1, 10), (2, 20), (1, 11), (0, 30), (77, 40), (2, 21)] {
            sender
                .send_to(&packet(slot, mark), (gid.addr, 4791))
                .unwrap();
        }
        assert_eq!(marks(&of_a), [10, 11]);
        assert_eq!(marks(&of_b), [20, 21]);
    }

    // Slots without an owner: two packets at each address.
    eventually("strays are counted", || {
        daemon.counter(Counter::RxUnknownQp.name()) == 4
    });

    // The same socket again, and nothing that waits in it is lost.
    let first = socket(a.receive_socket(0).unwrap());
    sender
        .send_to(&packet(1, 50), (gids[0].addr, 4791))
        .unwrap();
    let again = socket(a.receive_socket(0).unwrap());
    assert_eq!(marks(&again), [50]);
    assert!(marks(&first).is_empty());
}

#[test]
fn sockets_have_their_options() {
    let daemon = TestDaemon::start(&["127.0.7.13"]);
    let mut client = daemon.connect();
    let device = client.attach("options").unwrap().device;
    let socket = client.receive_socket(0).unwrap();
    let offload = ferroce_control::udp::receive_offload(&socket);
    assert_eq!(offload, Ok(true));
    let buffer = rustix::net::sockopt::socket_recv_buffer_size(&socket).unwrap();
    assert_eq!(u32::try_from(buffer), Ok(device.rcvbuf));
    assert_eq!(
        UdpSocket::from(socket).local_addr().unwrap(),
        "127.0.7.13:4791".parse().unwrap()
    );
}

#[test]
fn requests_out_of_turn_are_refused() {
    let daemon = TestDaemon::start(&["127.0.7.14"]);
    let mut client = daemon.connect();
    assert_eq!(client.receive_socket(0).unwrap_err().errno(), libc::EINVAL);
    client.attach("x").unwrap();
    assert_eq!(client.attach("x").unwrap_err().errno(), libc::EINVAL);
    assert_eq!(client.receive_socket(1).unwrap_err().errno(), libc::ENOENT);
    assert_eq!(
        client.receive_socket(u16::MAX).unwrap_err().errno(),
        libc::ENOENT
    );
    client.receive_socket(0).unwrap();
}

#[test]
fn twenty_clients_at_once() {
    let daemon = TestDaemon::start(&["127.0.7.15"]);
    let barrier = std::sync::Barrier::new(20);
    let slots: BTreeSet<u8> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|n| {
                let (daemon, barrier) = (&daemon, &barrier);
                scope.spawn(move || {
                    let mut client = daemon.connect();
                    let slot = client.attach(&format!("client {n}")).unwrap().slot;
                    let socket = socket(client.receive_socket(0).unwrap());
                    // All are attached at the same time, and all find their own packet.
                    barrier.wait();
                    let sender = UdpSocket::bind("127.0.7.16:0").unwrap();
                    sender
                        .send_to(&packet(slot, slot), "127.0.7.15:4791")
                        .unwrap();
                    assert!(common::readable(&socket, PATIENCE));
                    assert_eq!(marks(&socket), [slot]);
                    barrier.wait();
                    slot
                })
            })
            .collect();

        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });

    assert_eq!(slots.len(), 20);
    eventually("all slots are free again", || daemon.claimed() == 0);
}

#[test]
fn the_last_slot_is_handed_on_rested_and_empty() {
    let daemon = TestDaemon::start(&["127.0.7.17"]);
    let mut clients: Vec<Client> = (0..255).map(|_| daemon.connect()).collect();
    let slots: BTreeSet<u8> = clients
        .iter_mut()
        .map(|client| client.attach("one of many").unwrap().slot)
        .collect();
    assert_eq!(slots.len(), 255);
    assert!(!slots.contains(&0));
    let error = daemon.connect().attach("too many").unwrap_err();
    assert_eq!(error.errno(), libc::EBUSY);
    assert!(error.to_string().contains("255 slots"), "{error}");

    // One goes without having looked at what came for it.
    let mut leaver = clients.remove(100);
    let unread = socket(leaver.receive_socket(0).unwrap());
    let sender = UdpSocket::bind("127.0.7.18:0").unwrap();
    let slot = 101;
    sender.send_to(&packet(slot, 1), "127.0.7.17:4791").unwrap();
    assert!(common::readable(&unread, PATIENCE));
    let gone = Instant::now();
    drop((leaver, unread));
    sender.send_to(&packet(slot, 2), "127.0.7.17:4791").unwrap();

    let mut heir = daemon.connect();
    assert_eq!(heir.attach("heir").unwrap().slot, slot);
    assert!(
        gone.elapsed() >= Duration::from_millis(500),
        "it has not rested"
    );

    // Until the socket is handed out it belongs to nobody.
    sender.send_to(&packet(slot, 3), "127.0.7.17:4791").unwrap();
    let inherited = socket(heir.receive_socket(0).unwrap());
    sender.send_to(&packet(slot, 4), "127.0.7.17:4791").unwrap();
    assert!(common::readable(&inherited, PATIENCE));
    assert_eq!(marks(&inherited), [4]);
    assert_eq!(daemon.counter(Counter::RxUnknownQp.name()), 3);
}

/// Another process that attaches and then waits to be killed.
struct Victim {
    child: Child,
    /// What it said: its slot and, if it has one, its child's process.
    words: Vec<u32>,
}

impl Victim {
    fn start(dir: &RuntimeDir, with_child: bool) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--ignored", "--nocapture"])
            .env("FERROCED_TEST_DIR", dir.path())
            .env("FERROCED_TEST_CHILD", if with_child { "1" } else { "" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();

        let output = BufReader::new(child.stdout.take().unwrap());
        let line = output
            .lines()
            .map(Result::unwrap)
            .find(|line| line.contains("victim:"));
        let line = line.expect("the victim has attached");
        let (_, words) = line.split_once("victim:").unwrap();
        let words = words
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        Self { child, words }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Not a test: what [`Victim`] runs.
#[test]
#[ignore = "run by other tests"]
fn victim() {
    let Some(dir) = std::env::var_os("FERROCED_TEST_DIR") else {
        return;
    };

    let dir = RuntimeDir::resolve(Some(dir.as_ref()));
    let mut client = Client::connect(&dir).unwrap();
    let attachment = client.attach("victim").unwrap();
    let _socket = client.receive_socket(0).unwrap();
    attachment.counters.add(Counter::TxPackets, 1000);
    let mut words = attachment.slot.to_string();
    let mut sleeper = None;
    if std::env::var_os("FERROCED_TEST_CHILD").is_some_and(|v| !v.is_empty()) {
        // A program that does not set close-on-exec on what it has been given.
        rustix::io::fcntl_setfd(client.event_fd(), rustix::io::FdFlags::empty()).unwrap();
        let child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        words += &format!(" {}", child.id());
        sleeper = Some(child);
    }

    println!("victim: {words}");
    let _ = std::io::stdin().lines().next();
    if let Some(mut sleeper) = sleeper {
        let _ = sleeper.wait();
    }
}

#[test]
fn a_killed_client_frees_its_slot_and_its_counters_stay() {
    let daemon = TestDaemon::start(&["127.0.7.19"]);
    let mut victim = Victim::start(&daemon.dir, false);
    let slot = victim.words[0] as u8;
    let status = daemon.connect().status().unwrap();
    let shown = status
        .clients
        .iter()
        .find(|client| client.slot == Some(slot))
        .unwrap();

    assert_eq!(
        (shown.pid, shown.name.as_str()),
        (victim.child.id(), "victim")
    );

    victim.kill();
    eventually("the slot is free", || daemon.claimed() == 0);
    assert_eq!(daemon.counter(Counter::TxPackets.name()), 1000);

    // Who comes next is not given the dead one's slot while it rests.
    assert_ne!(daemon.connect().attach("next").unwrap().slot, slot);
}

#[test]
fn a_child_that_keeps_the_connection_does_not_keep_the_slot() {
    let daemon = TestDaemon::start(&["127.0.7.21"]);
    let mut victim = Victim::start(&daemon.dir, true);
    victim.kill();
    let sleeper = rustix::process::Pid::from_raw(victim.words[1] as i32).unwrap();
    let lives = rustix::process::test_kill_process(sleeper).is_ok();
    if lives {
        eventually("the slot is free", || daemon.claimed() == 0);
    }
    let _ = rustix::process::kill_process(sleeper, rustix::process::Signal::KILL);
    assert!(lives, "the child died too early to show anything");
}

#[test]
fn a_client_whose_daemon_has_gone_is_told() {
    let mut daemon = TestDaemon::start(&["127.0.7.22"]);
    let mut client = daemon.connect();
    client.attach("left behind").unwrap();
    let dir = daemon.dir.clone();
    daemon.stop();
    assert!(common::readable(client.event_fd(), PATIENCE));
    assert_eq!(client.try_event(), Some(ferroce_control::Event::Shutdown));
    assert_eq!(client.try_event(), None);
    assert!(matches!(client.gids(), Err(ControlError::Closed)));
    let error = Client::connect(&dir).unwrap_err();
    assert!(error.to_string().contains("ferroce up"), "{error}");
    assert_eq!(error.errno(), libc::ENODEV);
}
