//! The tester's ends of cables to a device's InfiniBand ports.
//!
//! A thread of their own keeps the links trained while the tester waits for something else: an end
//! that is silent for long has gone, as far as the device knows. What comes is kept until it is
//! asked for. Training is ferroce's own, of a cable's either end.

use super::stamp::Receiver;
use anyhow::{Context, Result, bail};
use ferroce_fabric::link::{Cable, Change, Training, is_frame};
use ferroce_fabric::sma::{LinkCommand, Offer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the tester's ports offer in training: everything that there is.
const OFFER: Offer = Offer {
    widths: 0b1111,
    speeds: 0b111,
    speeds_ext: 0b1111,
};
/// How long a link may take to come up.
const LINK_UP: Duration = Duration::from_secs(10);
/// How soon a command to a link is carried out.
const LOOK: Duration = Duration::from_millis(10);
/// Packets that are kept of a port; what comes then is lost, as at a full buffer.
const ROOM: usize = 65_536;

/// The ends of all cables.
pub(super) struct Cables {
    cables: Vec<Cable>,
    sockets: Vec<Arc<UdpSocket>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    ends: Mutex<Vec<End>>,
    changed: Condvar,
    stop: AtomicBool,
}

struct End {
    training: Training,
    up: bool,
    received: VecDeque<(Instant, Vec<u8>)>,
}

impl Shared {
    fn ends(&self) -> MutexGuard<'_, Vec<End>> {
        self.ends
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Cables {
    /// Takes the near ends of these cables and begins to look for the others.
    ///
    /// # Errors
    /// A near end is in use, or not an address of this host.
    pub(super) fn new(cables: Vec<Cable>) -> Result<Cables> {
        let mut sockets = Vec::new();
        for cable in &cables {
            let socket = UdpSocket::bind(cable.local)
                .with_context(|| format!("the tester's end {} of a cable", cable.local))?;
            sockets.push(socket);
        }
        Cables::with_sockets(cables, sockets)
    }

    /// The same with sockets that have the near ends already.
    ///
    /// # Errors
    /// The sockets do not take what every socket takes.
    pub(super) fn with_sockets(cables: Vec<Cable>, sockets: Vec<UdpSocket>) -> Result<Cables> {
        let now = Instant::now();
        let mut shared = Vec::new();
        let mut ends = Vec::new();
        for socket in sockets {
            // Never connected: data comes from the sockets of the device's processes, SMPs and
            // training from the daemon's.
            socket.set_nonblocking(true)?;
            Receiver::prepare(&socket)?;
            shared.push(Arc::new(socket));
            ends.push(End {
                training: Training::new(now),
                up: false,
                received: VecDeque::new(),
            });
        }

        let sockets = shared;
        let shared = Arc::new(Shared {
            ends: Mutex::new(ends),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let for_thread = shared.clone();
        let theirs: Vec<_> = sockets
            .iter()
            .cloned()
            .zip(cables.iter().copied())
            .collect();
        let thread = std::thread::Builder::new()
            .name("cables".to_owned())
            .spawn(move || attend(&for_thread, &theirs))?;
        Ok(Cables {
            cables,
            sockets,
            shared,
            thread: Some(thread),
        })
    }

    /// All of them, that to port 1 first.
    pub(super) fn all(&self) -> &[Cable] {
        &self.cables
    }

    /// How many there are.
    pub(super) fn count(&self) -> u8 {
        self.cables.len() as u8
    }

    /// Waits until all links are up, those that were pulled out aside, and forgets what has come.
    ///
    /// # Errors
    /// Somebody does not answer.
    pub(super) fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + LINK_UP;
        let mut ends = self.shared.ends();
        while let Some(down) = ends.iter().position(|end| !end.up) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!(
                    "nobody answers at the other end of the cable {} to port {}",
                    self.cables[down],
                    down + 1
                );
            }
            let wait = self.shared.changed.wait_timeout(ends, left);
            ends = wait.unwrap_or_else(|broken| broken.into_inner()).0;
        }

        for end in ends.iter_mut() {
            end.received.clear();
        }
        Ok(())
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// The host does not take it.
    pub(super) fn send(&self, port: u8, packet: &[u8]) -> Result<()> {
        let at = usize::from(port) - 1;
        match self.sockets[at].send_to(packet, self.cables[at].remote) {
            // A full buffer loses packets, and so does an end that has gone.
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error).context("sending by a cable"),
        }
    }

    /// The next packet of a port, with the time when it came.
    pub(super) fn receive(&self, port: u8, deadline: Instant) -> Option<(Instant, Vec<u8>)> {
        let mut ends = self.shared.ends();
        loop {
            let packet = ends[usize::from(port) - 1].received.pop_front();
            let left = deadline.saturating_duration_since(Instant::now());
            if packet.is_some() || left.is_zero() {
                return packet;
            }
            let wait = self.shared.changed.wait_timeout(ends, left);
            ends = wait.unwrap_or_else(|broken| broken.into_inner()).0;
        }
    }

    /// Plugs a cable in, or pulls it out, which the device is told as by an end that is switched
    /// off.
    pub(super) fn plug(&self, port: u8, plugged: bool) {
        let end = &mut self.shared.ends()[usize::from(port) - 1];
        let command = match plugged {
            true => LinkCommand::Poll,
            false => LinkCommand::Disable,
        };
        end.training.command(Instant::now(), command);
        end.up = false;
        end.received.clear();
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let ends = self.shared.ends();
        for ((end, socket), cable) in ends.iter().zip(&self.sockets).zip(&self.cables) {
            if let Some(frame) = end.training.last_word(OFFER) {
                let _ = socket.send_to(&frame, cable.remote);
            }
        }
    }
}

/// Keeps the links trained and takes in what comes, until it is told to stop.
fn attend(shared: &Shared, cables: &[(Arc<UdpSocket>, Cable)]) {
    let mut receiver = Receiver::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let mut waiting: Vec<PollFd<'_>> = cables
            .iter()
            .map(|(socket, _)| PollFd::new(&**socket, PollFlags::IN))
            .collect();

        let wait = Timespec::try_from(LOOK).expect("10 ms");
        let _ = poll(&mut waiting, Some(&wait));
        let mut ends = shared.ends();
        for (end, (socket, cable)) in ends.iter_mut().zip(cables) {
            while let Ok(Some(datagram)) = receiver.receive(socket) {
                // What others than the other end's host send is not looked at.
                if datagram.from.ip() == cable.remote.ip() {
                    end.take(datagram.at, datagram.bytes);
                }
            }
            end.tick(Instant::now(), socket, cable);
        }

        drop(ends);
        shared.changed.notify_all();
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, WouldBlock};
    matches!(error.kind(), ConnectionRefused | WouldBlock)
}

impl End {
    fn take(&mut self, at: Instant, bytes: &[u8]) {
        let now = Instant::now();
        if is_frame(bytes) {
            if let Some(change) = self.training.receive(now, bytes) {
                self.change(now, change);
            }
        } else if self.up {
            self.training.alive(now);
            if self.received.len() < ROOM {
                self.received.push_back((at, bytes.to_vec()));
            }
        }
    }

    fn tick(&mut self, now: Instant, socket: &UdpSocket, cable: &Cable) {
        // A farewell, a frame and the loss of the link may be due together.
        for _ in 0..3 {
            let (frame, change) = self.training.tick(now, OFFER);
            if let Some(frame) = &frame {
                let _ = socket.send_to(frame, cable.remote);
            }
            match change {
                Some(change) => self.change(now, change),
                None if frame.is_none() => break,
                None => {}
            }
        }
    }

    fn change(&mut self, now: Instant, change: Change) {
        self.up = matches!(change, Change::Up(_));
        if !self.up {
            self.training.command(now, LinkCommand::Poll);
        }
    }
}
