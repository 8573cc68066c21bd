//! Sending runs by a UDP socket.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ferroce_control::udp::SEND_BUFFER;
use ferroce_transport::AtomicTime;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockAddr, Socket};

use crate::port::{Capacity, calls};
use crate::progress::timers;
use crate::tuning::{RUN_RETRY, SEND_TRIES, SEND_WAIT};

/// A socket that sends. It is never connected, so that Linux numbers the datagrams of one send 0,
/// 1, 2 …, which RoCEv2's ICRC covers.
pub(in crate::port) struct Sender {
    socket: Socket,
    /// The kernel knows how to cut runs into datagrams.
    cuts: bool,
    /// It takes runs as one GSO datagram on the way that there is now.
    gso: AtomicBool,
    /// When that is tried again where it does not.
    try_at: AtomicTime,
    /// It has been told of packets that are too long.
    told: AtomicBool,
}

impl Sender {
    /// `gso`: whether the socket is known to cut runs into datagrams.
    pub(in crate::port) fn new(socket: Socket, gso: bool) -> Sender {
        // Refusal is harmless.
        let _ = socket.set_send_buffer_size(SEND_BUFFER);
        Sender {
            socket,
            cuts: gso,
            gso: AtomicBool::new(gso),
            try_at: AtomicTime::default(),
            told: AtomicBool::new(false),
        }
    }

    pub(in crate::port) fn socket(&self) -> &Socket {
        &self.socket
    }

    #[inline]
    pub(in crate::port) fn capacity(&self) -> Capacity {
        match self.gso.load(Relaxed) {
            true => Capacity::RUN,
            false => Capacity::SINGLE,
        }
    }

    /// Sends the run of datagrams that `iov` describes; `segment` is their size when there are
    /// several, `class` their traffic class where it is not the socket's own.
    pub(in crate::port) fn send(
        &self,
        dest: &SockAddr,
        iov: &mut [libc::iovec],
        segment: Option<u16>,
        class: Option<u8>,
    ) -> io::Result<()> {
        if segment.is_none() && self.is_to_try() && self.try_as_run(dest, iov, class) {
            return Ok(());
        }

        with_message(dest, iov, segment, class, |msg| {
            for _ in 0..SEND_TRIES {
                let Err(e) = self.submit(msg) else {
                    return Ok(());
                };
                match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS) => self.wait_writable(),
                    // an interface without checksum offload, or a path whose MTU shrank: send
                    // singly for now
                    Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP)
                        if segment.is_some() =>
                    {
                        self.try_at.store(timers::now() + RUN_RETRY);
                        self.gso.store(false, Relaxed);
                        return Err(e);
                    }
                    _ => return Err(e),
                }
            }

            Err(io::ErrorKind::WouldBlock.into())
        })
        .inspect_err(|error| {
            if error.raw_os_error() == Some(libc::EMSGSIZE) && segment.is_none() {
                self.tell_too_long(dest, iov);
            }
        })
    }

    /// Whether runs were refused, and may be taken again: routes and interfaces change.
    #[inline]
    fn is_to_try(&self) -> bool {
        self.cuts && !self.gso.load(Relaxed) && timers::now() >= self.try_at.load()
    }

    /// Sends a single datagram as a run of one, of which the kernel asks what it asks of longer
    /// ones. A longer run that is refused is lost, as its packets have numbers; this one leaves by
    /// itself then. Returns whether it has left.
    #[cold]
    fn try_as_run(&self, dest: &SockAddr, iov: &mut [libc::iovec], class: Option<u8>) -> bool {
        let bytes: usize = iov.iter().map(|piece| piece.iov_len).sum();
        let segment = u16::try_from(bytes).ok();
        let sent = segment.is_some()
            && with_message(dest, iov, segment, class, |msg| self.submit(msg)).is_ok();
        self.try_at.store(timers::now() + RUN_RETRY);
        self.gso.store(sent, Relaxed);
        sent
    }

    /// Sends the same to somebody else, if there is room.
    pub(in crate::port) fn repeat(
        &self,
        dest: &SockAddr,
        iov: &mut [libc::iovec],
        segment: Option<u16>,
    ) {
        let _ = with_message(dest, iov, segment, None, |msg| self.submit(msg));
    }

    /// Each one is lost, and sent again in vain: a program is only told that nobody answers.
    #[cold]
    fn tell_too_long(&self, dest: &SockAddr, iov: &[libc::iovec]) {
        if self.told.swap(true, Relaxed) {
            return;
        }
        let bytes: usize = iov.iter().map(|piece| piece.iov_len).sum();
        let to = dest.as_socket().map(|to| to.ip());
        tracing::warn!(
            ?to,
            bytes,
            "packets are longer than the interface on the way takes, and are lost: a smaller path \
             MTU is needed"
        );
    }

    fn submit(&self, msg: &libc::msghdr) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `with_message` made it, whose name, iovecs and control data are there as long as
        // it is.
        unsafe { calls::sendmsg(&self.socket, msg, flags) }
    }

    /// The link is slower than we are: give it a moment, as dropping would only cost a
    /// retransmission.
    fn wait_writable(&self) {
        let until = Timespec::try_from(SEND_WAIT).ok();
        let _ = poll(
            &mut [PollFd::new(&self.socket, PollFlags::OUT)],
            until.as_ref(),
        );
    }
}

/// Room for one control message of up to 8 bytes.
const CONTROL: usize = 24;

/// The control messages of a send, `UDP_SEGMENT` and the traffic class, each as `struct cmsghdr`
/// (length, level, type) and data.
#[repr(align(8))]
struct Control {
    bytes: [u8; 2 * CONTROL],
    used: usize,
}

impl Control {
    fn add(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        const HEADER: usize = size_of::<libc::cmsghdr>();
        const { assert!(HEADER == 16) };
        let message = &mut self.bytes[self.used..self.used + CONTROL];
        message[..8].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        message[8..12].copy_from_slice(&level.to_ne_bytes());
        message[12..16].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..HEADER + data.len()].copy_from_slice(data);
        self.used += CONTROL;
    }
}

/// Describes a run to the kernel.
#[inline]
fn with_message<R>(
    dest: &SockAddr,
    iov: &mut [libc::iovec],
    segment: Option<u16>,
    class: Option<u8>,
    f: impl FnOnce(&libc::msghdr) -> R,
) -> R {
    let mut control = Control {
        bytes: [0; 2 * CONTROL],
        used: 0,
    };

    // SAFETY: all zeroes is a valid msghdr.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_name = dest.as_ptr() as *mut _;
    msg.msg_namelen = dest.len();
    msg.msg_iov = iov.as_mut_ptr();
    msg.msg_iovlen = iov.len() as _;
    if let Some(segment) = segment {
        control.add(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
    }
    if let Some(class) = class {
        let (level, kind) = match dest.is_ipv6() {
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            false => (libc::IPPROTO_IP, libc::IP_TOS),
        };
        control.add(level, kind, &libc::c_int::from(class).to_ne_bytes());
    }
    if control.used > 0 {
        msg.msg_control = control.bytes.as_mut_ptr().cast();
        msg.msg_controllen = control.used as _;
    }

    f(&msg)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::progress::virtual_time::VirtualTime;

    fn pieces(bytes: &mut [u8]) -> [libc::iovec; 1] {
        [libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        }]
    }

    #[test]
    fn what_is_too_long_for_the_way_is_told_of() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap().into();
        let sender = Sender::new(socket.into(), false);
        let send = |len: usize| {
            let mut bytes = vec![0u8; len];
            sender.send(&to, &mut pieces(&mut bytes), None, None)
        };
        send(100).unwrap();
        assert!(!sender.told.load(Relaxed));
        let error = send(70_000).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert!(sender.told.load(Relaxed));
    }

    /// More datagrams than any kernel makes of a run, and then some that it does.
    #[test]
    fn runs_that_were_refused_are_tried_again_at_no_loss() {
        let _virtual = VirtualTime::begin();
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = to.local_addr().unwrap().into();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = Sender::new(socket.into(), true);
        let send = |bytes: &mut [u8], segment| sender.send(&at, &mut pieces(bytes), segment, None);
        let come = || {
            let mut buffer = [0; 2048];
            let len = to.recv(&mut buffer).unwrap();
            buffer[..len].to_vec()
        };

        send(&mut [1; 2000], Some(1000)).unwrap();
        assert_eq!([come(), come()], [[1; 1000]; 2]);
        send(&mut [2; 2000], Some(1)).unwrap_err();
        assert_eq!(sender.capacity(), Capacity::SINGLE);
        send(&mut [3; 1000], None).unwrap();
        assert_eq!(
            (come(), sender.capacity()),
            (vec![3; 1000], Capacity::SINGLE)
        );

        let refused_at = timers::now();
        while timers::now() < refused_at + RUN_RETRY {}
        send(&mut [4; 1000], None).unwrap();
        assert_eq!((come(), sender.capacity()), (vec![4; 1000], Capacity::RUN));
        send(&mut [5; 2000], Some(1000)).unwrap();
        assert_eq!([come(), come()], [[5; 1000]; 2]);
    }

    #[test]
    fn a_kernel_that_cannot_cut_runs_is_not_asked_to() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap().into();
        let sender = Sender::new(socket.into(), false);
        sender
            .send(&to, &mut pieces(&mut [0; 100]), None, None)
            .unwrap();
        assert_eq!(sender.capacity(), Capacity::SINGLE);
    }
}
