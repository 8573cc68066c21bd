//! The receiving end: a multishot receive into provided buffers, GRO on, every payload copied into
//! its place.

use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use anyhow::{Context, Error, Result};
use ferroce_control::uring;
use io_uring::cqueue;
use socket2::Socket;

use crate::buffers::{self, Buffers, GROUP};
use crate::options::enable_gro;
use crate::{HEADER, MAX_DATAGRAM, TRAILER};

/// Bytes after which an acknowledgement is sent.
const ACK_EVERY: u64 = 256 << 10;

/// Receives into so much memory until a datagram of one byte, then prints payload bytes per second.
pub(crate) fn run(address: SocketAddr, payload: usize, memory: usize) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    let options = Socket::from(socket.try_clone()?);
    let _ = options.set_recv_buffer_size(8 << 20);
    enable_gro(&socket)?;
    // Dropped after the ring, which uses them.
    let mut buffers = Buffers::new();
    let message = buffers::message();
    let mut uring = uring::open().map_err(Error::msg)?;
    // SAFETY: see above.
    unsafe { buffers.register(&uring, GROUP) }.map_err(Error::msg)?;

    let mut target = vec![0; memory.max(MAX_DATAGRAM)];
    let (mut at, mut received, mut told) = (0, 0_u64, 0_u64);
    let mut times: Option<(Instant, Instant)> = None;
    let mut armed = false;
    println!("ready");

    loop {
        if !armed {
            let entry = buffers::receives(&socket, &message);
            // SAFETY: descriptor and template outlive the ring's use: both live until this function
            // returns.
            unsafe { uring.submission().push(&entry) }.context("the submission queue is full")?;
            armed = true;
        }

        uring.submit_and_wait(1)?;

        loop {
            let Some(done) = uring.completion().next() else {
                break;
            };

            armed &= cqueue::more(done.flags());
            let Some((id, datagram)) = buffers::arrived(&done, &buffers, &message)? else {
                continue;
            };
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

            buffers.provide(id);
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
