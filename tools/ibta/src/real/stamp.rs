//! When a datagram came: the kernel's word, not the moment at which the tester got round to it.
//!
//! The kernel stamps with the time of day. It becomes the tester's monotonic time by a look at both
//! clocks at once.

use anyhow::{Context, Result};
use ferroce_control::{datagram, udp};
use rustix::io::Errno;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Two clocks that were read within so much of each other were read at once.
const AT_ONCE: Duration = Duration::from_micros(50);
/// How often that is tried; after that the best will do.
const LOOKS: usize = 10;

/// The option, and what comes beside a datagram: a `timespec`.
const STAMP: datagram::Kind = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);

/// Receives datagrams with the times at which they came.
pub(super) struct Receiver {
    buffer: Vec<u8>,
}

/// A datagram.
pub(super) struct Stamped<'a> {
    /// When it came.
    pub at: Instant,
    /// From where.
    pub from: SocketAddr,
    /// What it says.
    pub bytes: &'a [u8],
}

impl Receiver {
    /// For datagrams of any length.
    pub(super) fn new() -> Receiver {
        Receiver {
            buffer: vec![0; 1 << 16],
        }
    }

    /// Has the kernel stamp what comes from now on.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn prepare(socket: &UdpSocket) -> Result<()> {
        udp::set(socket, STAMP, 1).context("SO_TIMESTAMPNS")
    }

    /// The next datagram, if one has come.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> Result<Option<Stamped<'_>>, Errno> {
        let (at, from, len) = loop {
            match datagram::receive(socket, &mut self.buffer, STAMP) {
                Ok(received) => {
                    if let Some(from) = received.from {
                        let at = received
                            .said
                            .map_or_else(Instant::now, |said| moment(since(said)));
                        break (at, from, received.len);
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        };

        Ok(Some(Stamped {
            at,
            from,
            bytes: &self.buffer[..len],
        }))
    }
}

/// A time of day on the monotonic clock. If the clock was set meanwhile, now at the latest.
fn moment(stamp: Duration) -> Instant {
    let (now, time_of_day) = both_clocks();
    let age = time_of_day.saturating_sub(stamp);
    now.checked_sub(age).unwrap_or(now)
}

/// Both clocks at once, or nearly: whoever loses the processor between two looks has looked at two
/// moments.
fn both_clocks() -> (Instant, Duration) {
    let look = || {
        let before = Instant::now();
        let time_of_day = SystemTime::now().duration_since(UNIX_EPOCH);
        let took = before.elapsed();
        (took, before, time_of_day.unwrap_or_default())
    };
    let mut best = look();
    for _ in 1..LOOKS {
        if best.0 <= AT_ONCE {
            break;
        }
        let another = look();
        if another.0 < best.0 {
            best = another;
        }
    }

    (best.1, best.2)
}

/// A `timespec` of 64 bits: seconds, nanoseconds.
fn since(timespec: [u8; 16]) -> Duration {
    let [seconds, nanoseconds] = [0, 8].map(|at| {
        let word = timespec[at..].first_chunk().expect("half of it");
        u64::from_ne_bytes(*word)
    });
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends itself a datagram, looks at it much later, and says when that was and when it is said
    /// to have come.
    fn late_look(socket: &UdpSocket, receiver: &mut Receiver) -> (Instant, Instant, Instant) {
        let here = socket.local_addr().unwrap();
        let before = Instant::now();
        socket.send_to(b"one", here).unwrap();
        let after = Instant::now();
        std::thread::sleep(Duration::from_millis(10));
        let received = receiver.receive(socket).unwrap().unwrap();
        assert_eq!((received.from, received.bytes), (here, &b"one"[..]));
        (before, received.at, after)
    }

    #[test]
    fn the_time_is_that_of_the_arrival() {
        let slack = Duration::from_millis(1);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Receiver::prepare(&socket).unwrap();
        let mut receiver = Receiver::new();
        assert!(receiver.receive(&socket).unwrap().is_none());
        // The first socket of a host that wants stamps gets them a moment later.
        let stamped = (0..200).find_map(|_| {
            let (before, at, after) = late_look(&socket, &mut receiver);
            assert!(at + slack >= before, "it came before it was sent");
            (at <= after + slack).then_some(())
        });
        assert!(stamped.is_some(), "it came when it was looked at");
    }
}
