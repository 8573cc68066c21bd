//! The server with programs' connections, for `tests/fuzz`: whatever they send, whole frames, while
//! what it sends comes back to it.

use std::os::fd::OwnedFd;

use ferroce_cabi::ucma_frame::{self, NO_CHANNEL, UMAD_IOCTL, UMAD_OPEN, UMAD_WRITE};
use ferroce_wire::MadHeader;
use rustix::net::SendFlags;

use super::server::{KIND, Server, Surroundings};
use crate::fuzzing::inputs::{connection, drain, frame, mad, reply, returned, steps};
use crate::mads::{Address, Incoming};
use crate::poller::Poller;
use crate::sessions::Sessions;

/// Numbers below stand for the files that were opened, in order.
const STANDS_FOR: u64 = 8;
const SESSION: u64 = 1;

/// The program's end of the connection, and its files by inode number.
struct Program {
    end: OwnedFd,
    files: Vec<(u64, OwnedFd)>,
    /// An ioctl or a write was carried out.
    done: bool,
}

/// The umad server under any sequence of frames and MADs.
pub fn umad_frames(input: &[u8]) -> bool {
    let poller = Poller::new().expect("an epoll");
    let around = Surroundings {
        poller: &poller,
        first: 0,
        ports: 2,
        smi: true,
    };

    let mut server = Server::of(Sessions::nowhere(KIND).expect("a socket"));
    let mut program = Program {
        end: enter(&mut server),
        files: Vec::new(),
        done: false,
    };

    for (what, which, bytes) in steps(input).take(64) {
        let nth = usize::from(which) % program.files.len().max(1);
        match what % 8 {
            0..=4 => program.send(&mut server, bytes, what & 0x80 != 0, &around),
            5 if nth < program.files.len() => {
                let (inode, end) = program.files.swap_remove(nth);
                drop(end);
                server.file_event(inode, false, &around);
            }
            6 => drain(program.files.iter().map(|(_, end)| end)),
            7 => {
                let incoming = Incoming {
                    port: 1 + which % 2,
                    qpn: (which >> 1 & 1).into(),
                    from: Address::default(),
                    mad: mad(bytes),
                };
                receive(&mut server, &incoming, &around);
            }
            _ => {}
        }

        for sent in server.outgoing().into_iter().take(16) {
            let incoming = returned(sent, which & 0x80 != 0);
            receive(&mut server, &incoming, &around);
        }
    }

    program.done
}

impl Program {
    /// Sends a frame, and gets at most one reply. Who made no sense has lost his connection and
    /// gets another.
    fn send(&mut self, server: &mut Server, bytes: &[u8], repair: bool, around: &Surroundings<'_>) {
        let mut kind = 0;
        let frame = frame(bytes, repair, |head| {
            kind = head.kind;
            match self.files.get(head.channel as usize) {
                // Of an issm it says whether to wait.
                Some((inode, _)) if head.channel < STANDS_FOR && kind >= UMAD_IOCTL => {
                    head.channel = *inode;
                }
                _ => {}
            }
        });

        let _ = rustix::net::send(&self.end, &frame, SendFlags::DONTWAIT);
        server.serve(SESSION, around);
        if let Some((head, answer, mut fds)) = reply(&self.end) {
            assert!(head.result <= 0 || head.result == NO_CHANNEL);
            assert_eq!(answer.len(), head.answer_len as usize);
            let opens = matches!(kind, UMAD_OPEN | ucma_frame::ISSM_OPEN) && head.result == 0;
            assert_eq!(fds.len(), usize::from(opens));
            if let Some(file) = fds.pop() {
                let inode = rustix::fs::fstat(&file).expect("a file").st_ino;
                self.files.push((inode, file));
            }
            self.done |= matches!(kind, UMAD_IOCTL | UMAD_WRITE) && head.result == 0;
        }

        if !server.has_session(SESSION) {
            self.end = enter(server);
        }
    }
}

/// A MAD has come.
fn receive(server: &mut Server, incoming: &Incoming, around: &Surroundings<'_>) {
    let header = MadHeader::parse(&incoming.mad).expect("a whole MAD");
    server.receive(incoming, &header, around);
}

/// The program connects; returns its end.
fn enter(server: &mut Server) -> OwnedFd {
    let (socket, end) = connection();
    server.enter(SESSION, socket);
    end
}
