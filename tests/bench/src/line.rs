//! A line between two network namespaces, an interface at either end: packets cross it after a
//! while, in order, and some are lost. Kernels without `sch_netem` have no delay of their own.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space, set_current_timer_slack};

/// The interface at either end.
const INTERFACE: &CStr = c"line0";
/// The largest packet, with its Ethernet header.
const LARGEST: usize = 9216;
/// Packets on their way in one direction at most; more are lost, as where a network is full.
const ROOM: usize = 8192;
/// Packets of one direction that are handled before the other is looked at.
const AT_ONCE: usize = 16;
/// Nanoseconds by which the kernel may oversleep.
const SLACK: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

/// What happens to packets in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Nature {
    /// Of each packet, in one direction.
    delay: Duration,
    /// The share that is lost, from 0 to 1.
    lost: f64,
}

impl Nature {
    /// Microseconds and a share, as in `5000 0.01`.
    fn parse(line: &str) -> Result<Nature> {
        let mut words = line.split_whitespace();
        let (Some(delay), Some(lost), None) = (words.next(), words.next(), words.next()) else {
            bail!("microseconds and a share are wanted: {line:?}");
        };
        Ok(Nature {
            delay: Duration::from_micros(delay.parse().context("microseconds")?),
            lost: lost.parse().context("a share, from 0 to 1")?,
        })
    }
}

/// One direction.
#[derive(Default)]
struct Way {
    packets: VecDeque<(Instant, Vec<u8>)>,
    /// Memory of packets that have crossed.
    spare: Vec<Vec<u8>>,
}

impl Way {
    /// Takes a packet that was sent.
    fn take(&mut self, at: Instant, packet: &[u8]) {
        if self.packets.len() < ROOM {
            let mut memory = self.spare.pop().unwrap_or_default();
            memory.clear();
            memory.extend_from_slice(packet);
            self.packets.push_back((at, memory));
        }
    }

    /// When the next packet is there.
    fn next(&self) -> Option<Instant> {
        self.packets.front().map(|(at, _)| *at)
    }

    /// The next packet, if it is there by now.
    fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next()? > now {
            return None;
        }
        self.packets.pop_front().map(|(_, packet)| packet)
    }
}

/// Joins the namespace that this process is in to that of another process, until its input ends.
/// Each line of it says what the line is like from then on and is answered by one: the delay in one
/// direction in microseconds, and the share that is lost.
pub(crate) fn run(peer: u32) -> Result<()> {
    let here = interface()?;
    let space = format!("/proc/{peer}/ns/net");
    let space = File::open(&space).with_context(|| space.clone())?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
        .context("entering the other's network")?;
    let ends = [here, interface()?];
    set_current_timer_slack(Some(SLACK)).context("the timer's slack")?;

    let mut nature = Nature {
        delay: Duration::ZERO,
        lost: 0.0,
    };
    let mut ways = [Way::default(), Way::default()];
    // xorshift64
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut memory = vec![0; LARGEST];
    println!("inside");
    loop {
        let mut moved = false;
        for (way, [from, to]) in ways.iter_mut().zip([[0, 1], [1, 0]]) {
            for _ in 0..AT_ONCE {
                let Some(len) = received(&ends[from], &mut memory)? else {
                    break;
                };
                moved = true;
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                if (seed >> 11) as f64 / (1_u64 << 53) as f64 >= nature.lost {
                    way.take(Instant::now() + nature.delay, &memory[..len]);
                }
            }
            for _ in 0..AT_ONCE {
                let Some(packet) = way.arrived(Instant::now()) else {
                    break;
                };
                moved = true;
                // An interface that is down takes nothing, nor does one that is full.
                let _ = (&ends[to]).write(&packet);
                way.spare.push(packet);
            }
        }
        if moved {
            continue;
        }

        let next = ways.iter().filter_map(Way::next).min();
        if let Some(line) = wait(&ends, next)? {
            if line.is_empty() {
                return Ok(());
            }
            nature = Nature::parse(&line)?;
            println!("changed");
        }
    }
}

/// Makes the interface in the namespace that this process is in.
fn interface() -> Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .context("/dev/net/tun")?;
    // SAFETY: all zero is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(INTERFACE.to_bytes()) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is a valid `struct ifreq`, which this one reads and writes.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error()).context("making an interface");
    }
    Ok(file)
}

/// The length of the next packet that an end has sent, if there is one.
fn received(mut end: &File, memory: &mut [u8]) -> Result<Option<usize>> {
    match end.read(memory) {
        Ok(len) => Ok(Some(len)),
        // It is down.
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error).context("reading from an interface"),
    }
}

/// Waits for a packet, until then at most, or for a line of the input, which it returns; an empty
/// one is its end.
fn wait(ends: &[File; 2], until: Option<Instant>) -> Result<Option<String>> {
    let span = until.map(|until| until.saturating_duration_since(Instant::now()));
    let span = span.map(|span| Timespec {
        tv_sec: span.as_secs() as i64,
        tv_nsec: i64::from(span.subsec_nanos()),
    });
    let input = io::stdin();
    let mut fds = [
        PollFd::from_borrowed_fd(ends[0].as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(ends[1].as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN),
    ];
    match poll(&mut fds, span.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("poll"),
    }
    if fds[2].revents().is_empty() {
        return Ok(None);
    }

    let mut line = String::new();
    input.lock().read_line(&mut line)?;
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_line_is_like_is_said_in_two_words() {
        let nature = Nature::parse("5000 0.01\n").unwrap();
        assert_eq!(nature.delay, Duration::from_millis(5));
        assert_eq!(nature.lost, 0.01);
        for wrong in ["", "5000", "5000 0.01 1", "5 ms", "-1 0"] {
            assert!(Nature::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn packets_cross_in_order_and_not_before_their_time() {
        let (mut way, now) = (Way::default(), Instant::now());
        let later = now + Duration::from_millis(1);
        way.take(now, b"a");
        way.take(later, b"b");
        assert_eq!(way.arrived(now).as_deref(), Some(&b"a"[..]));
        assert_eq!((way.arrived(now), way.next()), (None, Some(later)));
        assert_eq!(way.arrived(later).as_deref(), Some(&b"b"[..]));

        for _ in 0..=ROOM {
            way.take(now, b"c");
        }
        assert_eq!(way.packets.len(), ROOM);
    }
}
