//! Ways to take datagrams from the kernel by a thread that polls: a call each time it looks, or a
//! ring of io_uring into which the kernel puts what comes (multishot, provided buffers).

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use clap::ValueEnum;
use io_uring::{EnterFlags, IoUring, cqueue};

use crate::buffers::{self, Buffers, GROUP};
use crate::window::{PATIENCE, Window};
use crate::{HEADER, TRAILER, options};

/// Payload bytes of a packet, and packets of a run.
const PAYLOAD: usize = 4096;
const PACKETS: usize = 15;
/// Bytes of a small datagram: a request of 2 bytes.
const SMALL: usize = 36;
/// Runs that may be on their way.
const WINDOW: u64 = 8;
/// Looks in vain that are timed together.
const LOOKS: u32 = 100_000;
/// Datagrams that `recvmmsg` takes at once.
const BATCH: usize = 8;

/// How a thread looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Look {
    /// `recvmsg`, once for each datagram.
    Recvmsg,
    /// `recvmmsg`, once for several.
    Recvmmsg,
    /// `io_uring_enter` at each look, which alone has the kernel take datagrams.
    Uring,
    /// The same, of a ring that is registered.
    UringRegistered,
    /// A look at memory: the kernel says there that it has something to do, and is entered then.
    UringFlagged,
}

/// What a look does with a datagram.
type Each<'a> = &'a mut dyn FnMut(&[u8]);
/// Looks once; returns how many datagrams there were.
type Looks<'a> = &'a mut dyn FnMut(Each<'_>) -> Result<usize>;

/// Prints nanoseconds of a look in vain, microseconds one way of small datagrams between two
/// threads that look so (the median), and runs of packets received in a second.
pub(crate) fn run(way: Look, seconds: f64) -> Result<()> {
    let time = Duration::try_from_secs_f64(seconds / 2.0)?;
    let vain = in_vain(way)?;
    let latency = to_and_fro(way, time)?;
    let rate = stream(way, time)?;
    println!("{vain:.1} {latency:.3} {rate:.0}");
    Ok(())
}

/// A socket, connected to the other.
fn pair() -> Result<[UdpSocket; 2]> {
    let both = [options::receiver()?, options::receiver()?];
    both[0].connect(both[1].local_addr()?)?;
    both[1].connect(both[0].local_addr()?)?;
    Ok(both)
}

fn in_vain(way: Look) -> Result<f64> {
    let [socket, _other] = pair()?;
    with_looks(way, &socket, |look| {
        // The first one arms the ring.
        look(&mut |_| {})?;
        let began = Instant::now();
        for _ in 0..LOOKS {
            ensure!(look(&mut |_| {})? == 0, "something came");
        }
        Ok(began.elapsed().as_secs_f64() * 1e9 / f64::from(LOOKS))
    })
}

fn to_and_fro(way: Look, time: Duration) -> Result<f64> {
    let [here, there] = pair()?;
    let over = AtomicBool::new(false);
    let message = [7; SMALL];
    thread::scope(|scope| {
        let answers = scope.spawn(|| {
            with_looks(way, &there, |look| {
                while !over.load(Ordering::Relaxed) {
                    for _ in 0..look(&mut |_| {})? {
                        there.send(&message)?;
                    }
                }
                Ok(())
            })
        });

        let times = with_looks(way, &here, |look| {
            let mut times = Vec::new();
            let began = Instant::now();
            while began.elapsed() < time {
                let asked = Instant::now();
                here.send(&message)?;
                while look(&mut |_| {})? == 0 {
                    ensure!(asked.elapsed() < 50 * PATIENCE, "no answer");
                }
                times.push(asked.elapsed());
            }
            Ok(times)
        });
        over.store(true, Ordering::Relaxed);
        answers.join().expect("a thread that answers panicked")?;

        let mut times = times?;
        times.sort_unstable();
        Ok(times[times.len() / 2].as_secs_f64() * 1e6 / 2.0)
    })
}

fn stream(way: Look, time: Duration) -> Result<f64> {
    let [here, there] = pair()?;
    let segment = HEADER + PAYLOAD + TRAILER;
    options::set_segment_size(&there, segment)?;
    let (taken, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let sends = scope.spawn(|| {
            let run = vec![1; PACKETS * segment];
            let mut window = Window::new(WINDOW);
            while !over.load(Ordering::Relaxed) {
                match window.take(taken.load(Ordering::Relaxed) / run.len() as u64, 1) {
                    true => drop(there.send(&run)?),
                    false => std::hint::spin_loop(),
                }
            }
            Ok::<_, anyhow::Error>(())
        });

        let mut memory = vec![0; PACKETS * segment];
        let rate = with_looks(way, &here, |look| {
            let began = Instant::now();
            while began.elapsed() < time {
                look(&mut |bytes| {
                    memory[..bytes.len()].copy_from_slice(bytes);
                    taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                })?;
            }
            let runs = taken.load(Ordering::Relaxed) as f64 / memory.len() as f64;
            Ok(runs / began.elapsed().as_secs_f64())
        });
        over.store(true, Ordering::Relaxed);
        sends.join().expect("a thread that sends panicked")?;
        rate
    })
}

/// Has `f` look at a socket.
fn with_looks<R>(
    way: Look,
    socket: &UdpSocket,
    f: impl FnOnce(Looks<'_>) -> Result<R>,
) -> Result<R> {
    match way {
        Look::Recvmsg => by_calls(socket, 1, f),
        Look::Recvmmsg => by_calls(socket, BATCH, f),
        _ => by_ring(way, socket, f),
    }
}

fn by_calls<R>(
    socket: &UdpSocket,
    batch: usize,
    f: impl FnOnce(Looks<'_>) -> Result<R>,
) -> Result<R> {
    let mut memory = vec![vec![0_u8; 1 << 16]; batch];
    let mut control = vec![[0_u64; 8]; batch];
    let mut slices: Vec<libc::iovec> = memory
        .iter_mut()
        .map(|bytes| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        })
        .collect();
    let mut headers: Vec<libc::mmsghdr> = slices
        .iter_mut()
        .map(|slice| {
            // SAFETY: all zeroes is a valid mmsghdr.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();

    f(&mut |each| {
        for (header, control) in headers.iter_mut().zip(&mut control) {
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
        }

        // SAFETY: the headers and what they point to outlive the calls.
        let got = unsafe {
            match batch {
                1 => {
                    let got = libc::recvmsg(socket.as_raw_fd(), &raw mut headers[0].msg_hdr, 0);
                    headers[0].msg_len = got.max(0) as libc::c_uint;
                    got.min(1)
                }
                _ => {
                    let (fd, none) = (socket.as_raw_fd(), std::ptr::null_mut());
                    libc::recvmmsg(fd, headers.as_mut_ptr(), batch as libc::c_uint, 0, none)
                        as isize
                }
            }
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            ensure!(error.kind() == ErrorKind::WouldBlock, error);
            return Ok(0);
        }

        let got = got as usize;
        for (header, memory) in headers.iter().zip(&memory).take(got) {
            each(&memory[..header.msg_len as usize]);
        }
        Ok(got)
    })
}

fn by_ring<R>(way: Look, socket: &UdpSocket, f: impl FnOnce(Looks<'_>) -> Result<R>) -> Result<R> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_cqsize(256);
    match way {
        Look::UringFlagged => builder.setup_coop_taskrun().setup_taskrun_flag(),
        _ => builder.setup_defer_taskrun(),
    };

    // Dropped after the ring, which uses it.
    let mut buffers = Buffers::new();
    let message = buffers::message();
    let mut uring = builder.build(8).context("io_uring (Linux 6.1)")?;
    // SAFETY: the buffers outlive the ring.
    unsafe { buffers.register(&uring, GROUP) }.map_err(Error::msg)?;

    let (mut submitter, mut submissions, mut completions) = uring.split();
    if way == Look::UringRegistered {
        submitter.register_ring_fd().context("registering a ring")?;
    }

    let mut armed = false;
    f(&mut |each| {
        if !armed {
            let entry = buffers::receives(socket, &message);
            // SAFETY: descriptor and template outlive the ring's use.
            unsafe { submissions.push(&entry) }.context("the submission queue is full")?;
            submissions.sync();
            submitter.submit()?;
            armed = true;
        }

        completions.sync();
        if completions.is_empty() {
            if way == Look::UringFlagged && !submissions.taskrun() {
                return Ok(0);
            }
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: nothing is submitted, and no argument is passed.
            unsafe { submitter.enter::<()>(0, 0, flags, None) }?;
            completions.sync();
        }

        let mut got = 0;
        for done in completions.by_ref() {
            armed &= cqueue::more(done.flags());
            let Some((id, datagram)) = buffers::arrived(&done, &buffers, &message)? else {
                continue;
            };
            each(datagram.payload_data());
            got += 1;
            buffers.provide(id);
        }
        Ok(got)
    })
}
