//! Small datagrams to and fro, by ends that wait for them in one of three ways.

use std::hint::spin_loop;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::options::towards;

/// A side whose partner has been silent for so long gives up.
const SILENCE: Duration = Duration::from_secs(10);
/// Looks between two at the clock.
const LOOKS: u32 = 100_000;

/// Most bytes of a datagram: a packet of the path MTU with its headers.
const MOST: usize = 4096 + 64;
/// Bytes of the datagram that ends it all, which no other has.
const LAST: usize = 1;

/// How an end waits for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// It asks its socket again and again
    Poll,
    /// It sleeps in the kernel
    Sleep,
    /// It looks at memory, where a thread that sleeps in the kernel leaves word
    Memory,
}

/// What is said of the times that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// The one in the middle
    Median,
    /// Their mean
    Mean,
}

impl Figure {
    /// In microseconds, of at least one time.
    pub(crate) fn of(self, mut times: Vec<Duration>) -> f64 {
        let figure = match self {
            Figure::Median => {
                times.sort_unstable();
                times[times.len() / 2]
            }
            Figure::Mean => times.iter().sum::<Duration>() / times.len() as u32,
        };
        figure.as_secs_f64() * 1e6
    }
}

/// Answers until a datagram of one byte comes.
pub(crate) fn answer(address: SocketAddr, wait: Wait) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    let mut buffer = [0; MOST];
    with_inbox(&socket, wait, |inbox| {
        println!("ready");
        loop {
            let length = inbox.receive(&mut buffer)?;
            if length == LAST {
                return Ok(());
            }
            let to = inbox.from.get().context("from nobody")?;
            socket.send_to(&buffer[..length], to)?;
        }
    })
}

/// Asks `count` times and prints half of a round trip in microseconds.
pub(crate) fn ask(
    address: SocketAddr,
    size: usize,
    count: usize,
    wait: Wait,
    figure: Figure,
) -> Result<()> {
    ensure!(count > 0, "a time of no round trips");
    let socket = towards(address)?;
    let message = vec![7; size.clamp(LAST + 1, MOST)];
    let mut buffer = [0; MOST];
    let mut times = Vec::with_capacity(count);

    with_inbox(&socket, wait, |inbox| {
        // The first tenth warms up.
        for index in 0..count + count / 10 {
            let start = Instant::now();
            socket.send_to(&message, address)?;
            inbox.receive(&mut buffer)?;
            if index >= count / 10 {
                times.push(start.elapsed());
            }
        }

        socket.send_to(&[0; LAST], address)?;
        Ok(())
    })?;

    println!("{:.3}", figure.of(times) / 2.0);
    Ok(())
}

/// What has come to a socket, one datagram at a time.
struct Inbox<'a> {
    socket: &'a UdpSocket,
    wait: Wait,
    /// Who sent the first.
    from: OnceLock<SocketAddr>,
    /// Bytes of the datagram that the thread has left word of, 0 without one.
    word: AtomicUsize,
}

/// Runs an end that waits so, and the thread that it needs for that.
fn with_inbox(
    socket: &UdpSocket,
    wait: Wait,
    end: impl FnOnce(&Inbox<'_>) -> Result<()>,
) -> Result<()> {
    match wait {
        Wait::Poll => socket.set_nonblocking(true)?,
        Wait::Sleep | Wait::Memory => socket.set_read_timeout(Some(SILENCE))?,
    }

    let inbox = Inbox {
        socket,
        wait,
        from: OnceLock::new(),
        word: AtomicUsize::new(0),
    };
    if wait != Wait::Memory {
        return end(&inbox);
    }

    thread::scope(|scope| {
        scope.spawn(|| inbox.leave_word());
        let ended = end(&inbox);
        // The thread hears of it as it would from the other end.
        let own = socket.local_addr()?;
        UdpSocket::bind((own.ip(), 0))?.send_to(&[0; LAST], own)?;
        ended
    })
}

impl Inbox<'_> {
    /// Waits for a datagram; returns how many bytes it has.
    fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        match self.wait {
            Wait::Poll => until(|| self.take(buffer)),
            Wait::Sleep => self.take(buffer)?.context("the other side is silent"),
            Wait::Memory => until(|| match self.word.load(Acquire) {
                0 => Ok(None),
                length => {
                    self.word.store(0, Relaxed);
                    Ok(Some(length))
                }
            }),
        }
    }

    /// Takes a datagram from the socket. `None`: there is none.
    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.socket.recv_from(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
            Ok((length, from)) => {
                self.from.get_or_init(|| from);
                Ok(Some(length))
            }
        }
    }

    /// Sleeps until something comes, and leaves word of it; until the last.
    fn leave_word(&self) {
        let mut buffer = [0; MOST];
        while let Ok(Some(length)) = self.take(&mut buffer) {
            self.word.store(length, Release);
            if length == LAST {
                break;
            }
        }
    }
}

/// Looks until there is something.
fn until<T>(mut look: impl FnMut() -> io::Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = look()? {
                return Ok(found);
            }
            spin_loop();
        }
        if start.elapsed() > SILENCE {
            bail!("the other side is silent");
        }
    }
}
