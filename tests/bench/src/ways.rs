//! Ways to hand datagrams to the kernel: one call for each, one for several, or a ring. What is
//! sent has the shape of RoCE messages, gathered from where header, payload and ICRC lie; another
//! thread receives it all.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use io_uring::types::Fixed;
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue};
use socket2::{SockAddr, Socket};

use crate::window::Window;
use crate::{HEADER, TRAILER, options, processor_time};

/// Payload bytes of a packet, at most.
const MTU: usize = 4096;
/// Most packets of a message: those of one GSO send.
const PACKETS: usize = 15;
/// Messages that lie ready, each with memory of its own.
const READY: usize = 256;
/// Messages that may be on their way.
const WINDOW: u64 = 128;

/// How they are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// `sendmsg`, once for each message.
    Sendmsg,
    /// `sendmmsg`, once for a batch.
    Sendmmsg,
    /// `io_uring_enter`, once for a batch, of a socket that is registered.
    Uring,
    /// The same, of a ring that is registered.
    UringRegistered,
    /// A batch without a copy, where the way allows.
    UringZeroCopy,
    /// A ring that a thread of the kernel empties, without calls.
    UringPolled,
}

/// What is measured.
pub(crate) struct Task {
    pub(crate) way: Way,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Receivers, which take turns.
    pub(crate) paths: usize,
    /// Messages that are ready at the same time.
    pub(crate) batch: usize,
    pub(crate) seconds: f64,
}

/// Sends for so long, and prints the nanoseconds that a message took of the sending thread's
/// processor time, and how many arrived in a second.
pub(crate) fn run(task: &Task) -> Result<()> {
    ensure!(
        (1..=64).contains(&task.paths) && (1..=64).contains(&task.batch),
        "1 to 64 paths, and as many messages at once"
    );
    let receivers: Vec<UdpSocket> = (0..task.paths)
        .map(|_| options::receiver())
        .collect::<Result<_>>()?;
    let addresses: Vec<SockAddr> = receivers
        .iter()
        .map(|socket| Ok(socket.local_addr().map(SockAddr::from)?))
        .collect::<Result<_>>()?;

    let (arrived, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| receive(&receivers, &arrived, &done));
        let sent = send(task, &addresses, &arrived);
        done.store(true, Ordering::Relaxed);
        let sent = sent?;
        println!("{:.1} {:.0}", sent.nanoseconds, sent.rate);
        Ok(())
    })
}

struct Sent {
    nanoseconds: f64,
    rate: f64,
}

/// Counts the bytes that arrive.
fn receive(sockets: &[UdpSocket], arrived: &AtomicU64, done: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !done.load(Ordering::Relaxed) {
        for socket in sockets {
            while let Ok(bytes) = socket.recv(&mut buffer) {
                arrived.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    }
}

fn send(task: &Task, addresses: &[SockAddr], arrived: &AtomicU64) -> Result<Sent> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let packets = task.size.div_ceil(MTU).clamp(1, PACKETS);
    let payload = task.size.min(MTU);
    let out = Socket::from(socket.try_clone()?);
    let _ = out.set_send_buffer_size(8 << 20);
    options::set_segment_size(&out, HEADER + payload + TRAILER)?;

    let messages = Messages::new(addresses, packets, payload);
    let bytes = (packets * (HEADER + payload + TRAILER)) as u64;
    // Dropped before the messages, which it may be sending.
    let mut uring = task.way.ring(&socket)?;
    let mut hand = Hand::new(task.way, &socket, uring.as_mut())?;
    let (mut window, mut at) = (Window::new(WINDOW), 0);
    let mut spent = Duration::ZERO;
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(task.seconds);
    while Instant::now() < end {
        let here = arrived.load(Ordering::Relaxed) / bytes;
        if !window.take(here, task.batch as u64) {
            std::hint::spin_loop();
            continue;
        }

        if at + task.batch > READY {
            at = 0;
        }
        let before = processor_time();
        hand.over(&messages.headers[at..][..task.batch])?;
        spent += processor_time() - before;
        at += task.batch;
    }

    let here = arrived.load(Ordering::Relaxed) / bytes;
    hand.finish()?;
    let sent = window.sent();
    ensure!(sent > 0, "nothing was sent");
    ensure!(here * 2 > sent, "{here} of {sent} messages arrived");
    Ok(Sent {
        nanoseconds: spent.as_secs_f64() * 1e9 / sent as f64,
        rate: here as f64 / began.elapsed().as_secs_f64(),
    })
}

/// Messages that lie ready. What their headers point to has its place for as long as they have.
struct Messages {
    headers: Vec<libc::mmsghdr>,
    _slices: Vec<Vec<libc::iovec>>,
    _bytes: [Vec<u8>; 3],
}

impl Messages {
    fn new(addresses: &[SockAddr], packets: usize, payload: usize) -> Messages {
        let bytes = [
            vec![1; READY * packets * payload],
            vec![2; HEADER],
            // The trailer of a packet and the header of the next are neighbours.
            vec![3; TRAILER + HEADER],
        ];
        let part = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut slices: Vec<Vec<libc::iovec>> = (0..READY)
            .map(|message| {
                let mut slices = vec![part(&bytes[1])];
                for packet in 0..packets {
                    let at = (message * packets + packet) * payload;
                    slices.push(part(&bytes[0][at..][..payload]));
                    let last = packet + 1 == packets;
                    slices.push(part(if last {
                        &bytes[2][..TRAILER]
                    } else {
                        &bytes[2]
                    }));
                }
                slices
            })
            .collect();
        let headers = slices
            .iter_mut()
            .zip(addresses.iter().cycle())
            .map(|(slices, address)| {
                // SAFETY: all zeroes is a valid mmsghdr.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_name = address.as_ptr().cast_mut().cast();
                message.msg_hdr.msg_namelen = address.len();
                message.msg_hdr.msg_iov = slices.as_mut_ptr();
                message.msg_hdr.msg_iovlen = slices.len();
                message
            })
            .collect();
        Messages {
            headers,
            _slices: slices,
            _bytes: bytes,
        }
    }
}

impl Way {
    /// The ring, where there is one.
    fn ring(self, socket: &UdpSocket) -> Result<Option<IoUring>> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_cqsize(1024);
        match self {
            Way::Sendmsg | Way::Sendmmsg => return Ok(None),
            Way::UringPolled => builder.setup_sqpoll(1000),
            Way::Uring | Way::UringRegistered | Way::UringZeroCopy => builder.setup_defer_taskrun(),
        };
        let uring = builder.build(128).context("io_uring (Linux 6.1)")?;
        uring
            .submitter()
            .register_files(&[socket.as_raw_fd()])
            .context("registering a socket")?;
        Ok(Some(uring))
    }
}

/// Who hands them over.
enum Hand<'a> {
    Calls(&'a UdpSocket, Way),
    Ring(Ring<'a>),
}

impl<'a> Hand<'a> {
    fn new(way: Way, socket: &'a UdpSocket, uring: Option<&'a mut IoUring>) -> Result<Hand<'a>> {
        match uring {
            None => Ok(Hand::Calls(socket, way)),
            Some(uring) => Ok(Hand::Ring(Ring::new(way, uring)?)),
        }
    }

    fn over(&mut self, messages: &[libc::mmsghdr]) -> Result<()> {
        match self {
            Hand::Calls(socket, Way::Sendmsg) => {
                for message in messages {
                    // SAFETY: the header and what it points to outlive the call, which reads them.
                    let sent =
                        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message.msg_hdr, 0) };
                    ensure!(sent > 0, std::io::Error::last_os_error());
                }
                Ok(())
            }
            Hand::Calls(socket, _) => {
                let mut rest = messages.to_vec();
                let mut done = 0;
                while done < rest.len() {
                    let left = &mut rest[done..];
                    // SAFETY: likewise; the lengths that it writes go into the copy.
                    let sent = unsafe {
                        libc::sendmmsg(
                            socket.as_raw_fd(),
                            left.as_mut_ptr(),
                            left.len() as libc::c_uint,
                            0,
                        )
                    };
                    ensure!(sent > 0, std::io::Error::last_os_error());
                    done += sent as usize;
                }
                Ok(())
            }
            Hand::Ring(ring) => ring.over(messages),
        }
    }

    fn finish(&mut self) -> Result<()> {
        match self {
            Hand::Calls(..) => Ok(()),
            Hand::Ring(ring) => ring.until(0),
        }
    }
}

struct Ring<'a> {
    submitter: Submitter<'a>,
    submissions: SubmissionQueue<'a>,
    completions: CompletionQueue<'a>,
    way: Way,
    /// Completions that are to come.
    open: usize,
}

impl<'a> Ring<'a> {
    fn new(way: Way, uring: &'a mut IoUring) -> Result<Ring<'a>> {
        let (mut submitter, submissions, completions) = uring.split();
        if way == Way::UringRegistered {
            submitter.register_ring_fd().context("registering a ring")?;
        }
        Ok(Ring {
            submitter,
            submissions,
            completions,
            way,
            open: 0,
        })
    }

    /// Hands over what was pushed, and waits for so many completions.
    fn submit(&mut self, wanted: usize) -> Result<()> {
        self.submissions.sync();
        self.submitter.submit_and_wait(wanted)?;
        self.submissions.sync();
        Ok(())
    }

    fn over(&mut self, messages: &[libc::mmsghdr]) -> Result<()> {
        for message in messages {
            let entry: squeue::Entry = match self.way {
                Way::UringZeroCopy => {
                    opcode::SendMsgZc::new(Fixed(0), ptr::from_ref(&message.msg_hdr)).build()
                }
                _ => opcode::SendMsg::new(Fixed(0), ptr::from_ref(&message.msg_hdr)).build(),
            };
            // SAFETY: what it points to lives until all is completed, which `finish` waits for.
            while unsafe { self.submissions.push(&entry) }.is_err() {
                // Whoever empties it has not come to it yet.
                self.submit(0)?;
            }
            self.open += 1;
        }
        match self.way {
            // Nobody waits for it; memory that lies ready is not used again before all is.
            Way::UringPolled => {
                self.submit(0)?;
                self.until(READY / 2 - messages.len())
            }
            // The messages themselves; that their memory is free again comes later.
            Way::UringZeroCopy => {
                self.submit(messages.len())?;
                self.until(READY / 2 - messages.len())
            }
            _ => {
                self.submit(messages.len())?;
                self.until(0)
            }
        }
    }

    /// Takes completions until only so many are to come.
    fn until(&mut self, open: usize) -> Result<()> {
        loop {
            self.completions.sync();
            for done in self.completions.by_ref() {
                // One that is followed by another, about its memory.
                if !cqueue::more(done.flags()) {
                    self.open -= 1;
                }
                if done.result() < 0 && !cqueue::notif(done.flags()) {
                    bail!(std::io::Error::from_raw_os_error(-done.result()));
                }
            }
            if self.open <= open {
                return Ok(());
            }
            match self.way {
                Way::UringPolled => std::hint::spin_loop(),
                _ => self.submit(1)?,
            }
        }
    }
}
