//! What the tests share: daemons on directories and addresses of their own. Test programs run
//! beside each other, so no two of them have an address in common.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferroce_control::{Client, RuntimeDir};
use ferroced::{Config, Daemon, DaemonError, Settings};

/// Longer than anything here should take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon in a thread of the test. It is stopped when this is dropped.
pub(crate) struct TestDaemon {
    pub dir: RuntimeDir,
    thread: Option<JoinHandle<Result<(), DaemonError>>>,
    _temp: Option<tempfile::TempDir>,
}

pub(crate) fn settings(addrs: &[&str]) -> Settings {
    let config = Config {
        addr: addrs.iter().map(|addr| addr.parse().unwrap()).collect(),
        ..Config::default()
    };
    config.try_into().unwrap()
}

impl TestDaemon {
    pub(crate) fn start(addrs: &[&str]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
        let daemon = Daemon::start(dir.clone(), settings(addrs)).unwrap();
        let thread = std::thread::spawn(move || daemon.run(None));
        Self {
            dir,
            thread: Some(thread),
            _temp: Some(temp),
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.dir).unwrap()
    }

    /// Stops it and checks that it went well.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.connect().shutdown();
            thread.join().unwrap().unwrap();
        }
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters = self.connect().status().unwrap().counters;
        counters.into_iter().find(|(n, _)| n == name).unwrap().1
    }

    pub(crate) fn claimed(&self) -> u32 {
        self.connect().status().unwrap().slots.claimed
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            self.stop();
        }
    }
}

/// Waits until something has become so.
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The start of a packet for a queue pair of a slot, with a mark to know it by.
pub(crate) fn packet(slot: u8, mark: u8) -> [u8; 16] {
    let mut packet = [0; 16];
    packet[5] = slot;
    packet[15] = mark;
    packet
}

pub(crate) fn socket(fd: OwnedFd) -> UdpSocket {
    let socket = UdpSocket::from(fd);
    socket.set_nonblocking(true).unwrap();
    socket
}

/// The marks of the packets that wait in a socket.
pub(crate) fn marks(socket: &UdpSocket) -> Vec<u8> {
    let mut marks = Vec::new();
    let mut buffer = [0; 65_536];
    while let Ok(n) = socket.recv(&mut buffer) {
        // Receive offload may have merged several.
        marks.extend(buffer[..n].chunks(16).map(|packet| packet[15]));
    }
    marks
}

/// Whether a descriptor becomes readable in time.
pub(crate) fn readable(fd: impl AsFd, timeout: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    rustix::event::poll(&mut fds, Some(&timeout)).unwrap() > 0
}
