//! The receiving end: a multishot receive into provided buffers, GRO on, every payload copied into
//! its place.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use io_uring::types::{BufRingEntry, Fd, RecvMsgOut};
use io_uring::{IoUring, cqueue, opcode};
use socket2::Socket;

use crate::options::enable_gro;
use crate::{HEADER, MAX_DATAGRAM, TRAILER};

const BUFFERS: u16 = 16;
const NAME: usize = size_of::<libc::sockaddr_in6>();
const CONTROL: usize = 64;
const BUFFER: usize = 16 + NAME + CONTROL + MAX_DATAGRAM;
const GROUP: u16 = 0;
/// Bytes after which an acknowledgement is sent.
const ACK_EVERY: u64 = 256 << 10;

#[repr(C, align(4096))]
struct Entries([u8; size_of::<BufRingEntry>() * BUFFERS as usize]);

struct Ring {
    // Dropped first: the kernel's use of the rest ends with it.
    uring: IoUring,
    entries: Box<Entries>,
    memory: Box<[u8]>,
    tail: u16,
}

/// Receives into so much memory until a datagram of one byte, then prints payload bytes per second.
pub(crate) fn run(address: SocketAddr, payload: usize, memory: usize) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    let options = Socket::from(socket.try_clone()?);
    let _ = options.set_recv_buffer_size(8 << 20);
    enable_gro(&socket)?;
    let mut ring = Ring::new()?;

    // SAFETY: all zeroes is a valid msghdr.
    let mut message: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
    message.msg_namelen = NAME as u32;
    message.msg_controllen = CONTROL;
    let mut target = vec![0; memory.max(MAX_DATAGRAM)];
    let (mut at, mut received, mut told) = (0, 0_u64, 0_u64);
    let mut times: Option<(Instant, Instant)> = None;
    let mut armed = false;
    println!("ready");

    loop {
        if !armed {
            let entry =
                opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), &raw const *message, GROUP)
                    .build();
            // SAFETY: descriptor and template outlive the ring's use: both live until this function
            // returns.
            unsafe { ring.uring.submission().push(&entry) }
                .context("the submission queue is full")?;
            armed = true;
        }

        ring.uring.submit_and_wait(1)?;

        loop {
            let Some(done) = ring.uring.completion().next() else {
                break;
            };

            armed &= cqueue::more(done.flags());
            let Some(id) = cqueue::buffer_select(done.flags()) else {
                continue;
            };

            let datagram = RecvMsgOut::parse(ring.bytes(id), &message)
                .ok()
                .context("a receive without its head")?;
            let bytes = datagram.payload_data();
            if bytes.len() == 1 {
                report(times, received);
                return Ok(());
            }

            let segment = segment_size(datagram.control_data()).unwrap_or(bytes.len());
            let now = Instant::now();
            times = Some((times.map_or(now, |(first, _)| first), now));

            for packet in bytes.chunks(segment.max(1)) {
                let body = &packet
                    [HEADER.min(packet.len())..packet.len().saturating_sub(TRAILER).max(HEADER)];
                if at + body.len() > target.len() {
                    at = 0;
                }
                target[at..at + body.len()].copy_from_slice(body);
                at += body.len();
                received += body.len() as u64;
            }

            if received - told >= ACK_EVERY.min(64 * payload as u64) {
                told = received;
                if let Some(from) = sender_of(datagram.name_data()) {
                    let _ = socket.send_to(&received.to_le_bytes(), from);
                }
            }

            ring.provide(id);
        }
    }
}

fn report(times: Option<(Instant, Instant)>, received: u64) {
    let seconds = times.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    println!(
        "{:.0}",
        if seconds > 0.0 {
            received as f64 / seconds
        } else {
            0.0
        }
    );
}

impl Ring {
    fn new() -> Result<Ring> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(256)
            .build(64)
            .context("io_uring (Linux 6.1)")?;

        let memory = vec![0; BUFFER * usize::from(BUFFERS)].into_boxed_slice();
        let entries = Box::new(Entries([0; size_of::<BufRingEntry>() * BUFFERS as usize]));
        let mut ring = Ring {
            uring,
            entries,
            memory,
            tail: 0,
        };
        let address = (&raw const *ring.entries) as u64;

        // SAFETY: the entries live as long as the ring, which is dropped first.
        unsafe {
            ring.uring
                .submitter()
                .register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)
        }
        .context("registering a buffer ring")?;

        (0..BUFFERS).for_each(|id| ring.provide(id));
        Ok(ring)
    }

    fn bytes(&self, id: u16) -> &[u8] {
        &self.memory[usize::from(id) * BUFFER..][..BUFFER]
    }

    /// Gives a buffer to the kernel.
    fn provide(&mut self, id: u16) {
        let address = self.memory[usize::from(id) * BUFFER..].as_ptr() as u64;
        let entries = (&raw mut *self.entries).cast::<BufRingEntry>();
        // SAFETY: the index is masked to the array; the kernel reads an entry only after the tail
        // has passed it.
        unsafe {
            let entry = &mut *entries.add(usize::from(self.tail & (BUFFERS - 1)));
            entry.set_addr(address);
            entry.set_len(BUFFER as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(entries).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}

/// The first control message, if it is that of GRO: `struct cmsghdr`, then an int.
fn segment_size(control: &[u8]) -> Option<usize> {
    let value = control.get(16..20)?;
    Some(i32::from_ne_bytes([value[0], value[1], value[2], value[3]]) as usize)
}

/// The sender, of an IPv4 name.
fn sender_of(name: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([*name.get(2)?, *name.get(3)?]);
    let address: [u8; 4] = name.get(4..8)?.try_into().ok()?;
    Some(SocketAddr::from((address, port)))
}
