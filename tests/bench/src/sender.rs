//! The sending end: GSO sends whose payload is taken from where it lies, as many bytes in flight as
//! allowed.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::Result;
use socket2::{MsgHdr, SockAddr, Socket};

use crate::options::{set_segment_size, towards};
use crate::{HEADER, TRAILER, segments};

/// Bytes in flight that have not been acknowledged for so long are lost.
const PATIENCE: Duration = Duration::from_millis(20);

/// Sends for so many seconds out of so much memory, then says so with datagrams of one byte.
pub(crate) fn run(
    address: SocketAddr,
    payload: usize,
    seconds: f64,
    window: u64,
    memory: usize,
) -> Result<()> {
    let socket = towards(address)?;
    socket.set_nonblocking(true)?;
    let out = Socket::from(socket.try_clone()?);
    let _ = out.set_send_buffer_size(8 << 20);

    // SOL_UDP, UDP_SEGMENT
    set_segment_size(&out, HEADER + payload + TRAILER)?;
    let to = SockAddr::from(address);
    let count = segments(payload);
    let source = vec![1; memory.max(payload * count)];
    let header = [2; HEADER];

    // The trailer of a packet and the header of the next are neighbours.
    let between = [3; TRAILER + HEADER];
    let per_send = (payload * count) as u64;
    let (mut sent, mut acknowledged, mut at) = (0_u64, 0_u64, 0_usize);
    let mut heard = Instant::now();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        while sent - acknowledged + per_send <= window {
            if at + payload * count > source.len() {
                at = 0;
            }

            let mut slices = Vec::with_capacity(2 * count + 1);
            slices.push(IoSlice::new(&header));

            for packet in 0..count {
                slices.push(IoSlice::new(&source[at + packet * payload..][..payload]));
                slices.push(IoSlice::new(if packet + 1 < count {
                    &between
                } else {
                    &between[..TRAILER]
                }));
            }

            match out.sendmsg(&MsgHdr::new().with_addr(&to).with_buffers(&slices), 0) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }

            at += payload * count;
            sent += per_send;
        }

        // Acknowledgements say how many bytes have arrived in all.
        let mut word = [0; 8];
        match socket.recv(&mut word) {
            Ok(8) => {
                acknowledged = acknowledged.max(u64::from_le_bytes(word)).min(sent);
                heard = Instant::now();
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if heard.elapsed() > PATIENCE {
                    // Lost; what is sent from now on counts anew from what has arrived.
                    sent = acknowledged;
                    heard = Instant::now();
                } else {
                    wait_readable(&socket)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }

    // This one cuts nothing.
    let plain = Socket::from(towards(address)?);
    for _ in 0..20 {
        let _ = plain.send_to(&[0], &to);
        std::thread::sleep(Duration::from_millis(5));
    }

    Ok(())
}

fn wait_readable(socket: &UdpSocket) -> Result<()> {
    let mut entry = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, which outlives the call.
    if unsafe { libc::poll(&raw mut entry, 1, 5) } < 0 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(())
}
