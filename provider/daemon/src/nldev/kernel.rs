//! The kernel's own word on real devices. It is asked through a socket that the program itself has
//! opened, so that what the kernel allows is what it allows that program, and what it shows are the
//! devices of that program's network namespace.
//!
//! The kernel has answered when a request was sent: nothing here waits.

use std::os::fd::OwnedFd;

use netlink_packet_core::{NLA_ALIGNTO, NetlinkBuffer};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::message::{self, Asker, Request, end};

/// Room for one datagram: more than the kernel puts into one.
const DATAGRAM: usize = 64 * 1024;
/// The most datagrams that are taken as the answer to one request.
const MOST: usize = 16 * 1024;

/// A `NETLINK_RDMA` socket of the kernel's, on which both kinds of acknowledgement are switched on.
#[derive(Debug)]
pub(super) struct Kernel {
    socket: OwnedFd,
}

impl Kernel {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Kernel { socket }
    }

    /// All that the kernel answers.
    pub(super) fn ask(&self, to: Asker, request: &Request<'_>) -> Vec<Vec<u8>> {
        match self.exchange(to, request) {
            Ok(answers) => answers,
            Err(errno) => vec![message::acknowledge(to, request, Some(errno.into()))],
        }
    }

    /// The kernel's part of a listing, without its end. Where it fails there is none.
    pub(super) fn list(&self, to: Asker, request: &Request<'_>) -> Vec<Vec<u8>> {
        let mut answers = self.exchange(to, request).unwrap_or_default();
        for answer in &mut answers {
            let len = first_end(answer).unwrap_or(answer.len());
            answer.truncate(len);
        }
        answers.retain(|answer| !answer.is_empty());
        answers
    }

    fn exchange(&self, to: Asker, request: &Request<'_>) -> Result<Vec<Vec<u8>>, Errno> {
        rustix::net::send(&self.socket, request.bytes, SendFlags::DONTWAIT)?;
        let mut answers = Vec::new();
        while answers.len() < MOST {
            let mut answer = match self.receive() {
                Ok(answer) => answer,
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            };
            readdress(&mut answer, to.port);
            let last = first_end(&answer).is_some();
            answers.push(answer);
            if last {
                break;
            }
        }

        Ok(answers)
    }

    fn receive(&self) -> Result<Vec<u8>, Errno> {
        let mut datagram = vec![0; DATAGRAM];
        let (len, _) = rustix::net::recv(&self.socket, &mut datagram[..], RecvFlags::DONTWAIT)?;
        datagram.truncate(len);
        Ok(datagram)
    }
}

/// Where each message of a datagram begins.
fn starts(datagram: &[u8]) -> Vec<usize> {
    let mut at = 0;
    let mut starts = Vec::new();
    while let Some(rest) = datagram.get(at..)
        && let Ok(message) = NetlinkBuffer::new_checked(rest)
    {
        starts.push(at);
        at += (message.length() as usize).next_multiple_of(NLA_ALIGNTO);
    }
    starts
}

/// Where the message begins with which an answer ends.
fn first_end(datagram: &[u8]) -> Option<usize> {
    let is_end = |at: &usize| {
        let kind = NetlinkBuffer::new(&datagram[*at..]).message_type();
        matches!(kind, end::ERROR | end::DONE)
    };
    starts(datagram).into_iter().find(is_end)
}

/// Makes answers to us answers to a program.
fn readdress(datagram: &mut [u8], port: u32) {
    for at in starts(datagram) {
        NetlinkBuffer::new(&mut datagram[at..]).set_port_number(port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nldev::message::Attributes;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    /// A stand-in that says something for every request, at once as the kernel does.
    fn stand_in(says: &[&[u8]]) -> (Kernel, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        for datagram in says {
            rustix::net::send(&theirs, datagram, SendFlags::empty()).unwrap();
        }
        (Kernel::new(ours), theirs)
    }

    fn listing() -> (Vec<u8>, Asker) {
        let mut request = 16u32.to_ne_bytes().to_vec();
        request.extend([1, 0x14, 1, 3, 7, 0, 0, 0, 0, 0, 0, 0]);
        let to = Asker {
            port: 4711,
            ..Asker::default()
        };
        (request, to)
    }

    #[test]
    fn a_listing_goes_on_after_the_kernels_part() {
        let (bytes, to) = listing();
        let request = Request::all(&bytes).next().unwrap();
        let other = Asker {
            port: 1,
            ..Asker::default()
        };

        let mut device = Attributes::default();
        device.text(2, "rxe0");
        let device = message::answer(other, &request, 0x1401, &device);
        let mut all = device.clone();
        all.extend(&device);
        all.extend(message::done(other, &request, None));
        let mut wanted = device.clone();
        wanted.extend(&device);
        readdress(&mut wanted, 4711);

        for says in [&[&all[..]][..], &[&device, &all[device.len()..]]] {
            let (kernel, _theirs) = stand_in(says);
            assert_eq!(kernel.list(to, &request).concat(), wanted);
        }

        // What makes no sense ends a datagram.
        assert!(starts(&[0xff; 40]).is_empty());
        assert_eq!(first_end(&device[..device.len() - 1]), None);
    }
}
