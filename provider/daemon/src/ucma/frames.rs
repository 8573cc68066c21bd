//! The server with programs' connections, for `tests/fuzz`: whatever they send, whole frames, on a
//! device with one InfiniBand port, which sends nothing by itself.

use std::os::fd::OwnedFd;

use ferroce_cabi::ucma_frame::{self, NO_CHANNEL};
use ferroce_control::IbPort;
use ferroce_control::rtnetlink::Socket;
use ferroce_wire::mad::CLASS_CM;
use rustix::net::SendFlags;

use super::channel::Caller;
use super::fuzzing::device;
use super::serve::{KIND, Program, Server};
use super::surroundings::Surroundings as View;
use crate::claims::Claims;
use crate::fuzzing::inputs::{connection, drain, frame, mad, reply, returned, steps};
use crate::gids::GidTable;
use crate::interfaces::Snapshot;
use crate::mads::{Address, Incoming, Route};
use crate::poller::Poller;
use crate::sessions::{Session, Sessions};

/// How many programs there are.
const PROGRAMS: usize = 2;
/// Numbers below stand for the channels that were opened, in order.
const STANDS_FOR: u64 = 8;
const GID: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1];
const LID: u16 = 1;

/// What the programs have.
struct Programs {
    /// Their sessions, with their ends of the connections.
    ends: [(u64, OwnedFd); PROGRAMS],
    /// Channels, by inode number.
    channels: Vec<(u64, OwnedFd)>,
    /// A command was carried out.
    done: bool,
}

/// The server of rdma_cm under any sequence of frames, while what it sends comes back to it.
pub fn rdma_cm_frames(input: &[u8]) -> bool {
    let poller = Poller::new().expect("an epoll");
    let mut info = device();
    info.ib_ports = 1;
    let view = View {
        gids: &GidTable::of(Vec::new()),
        info: &info,
        snapshot: &Snapshot::default(),
        kernel: &Socket::default(),
        ports: &[port()],
        poller: &poller,
        claims: &Claims::default(),
        given: true,
    };

    let sessions = Sessions::nowhere(KIND).expect("a socket");
    let mut server = Server::of(sessions, &info).expect("a page of generations");
    let mut programs = Programs {
        ends: [0, 1].map(|id| (id, enter(&mut server, id, id as u32 + 1))),
        channels: Vec::new(),
        done: false,
    };

    for (what, which, bytes) in steps(input).take(64) {
        let nth = usize::from(which) % programs.channels.len().max(1);
        match what % 8 {
            0..=4 => programs.send(&mut server, which, bytes, what & 0x80 != 0, &view),
            5 if nth < programs.channels.len() => {
                let (inode, end) = programs.channels.swap_remove(nth);
                drop(end);
                server.hung_up(inode, &view);
            }
            6 => drain(programs.channels.iter().map(|(_, end)| end)),
            7 => {
                for sent in server.outgoing() {
                    incoming(&mut server, &returned(sent, which & 0x80 != 0), &view);
                }
                if !bytes.is_empty() {
                    incoming(&mut server, &stranger(bytes), &view);
                }
            }
            _ => {}
        }
    }

    programs.done
}

impl Programs {
    /// One of them sends a frame, and gets at most one reply. Who made no sense has lost his
    /// connection and gets another.
    fn send(
        &mut self,
        server: &mut Server,
        which: u8,
        bytes: &[u8],
        repair: bool,
        view: &View<'_>,
    ) {
        let program = usize::from(which) % PROGRAMS;
        let (id, end) = &self.ends[program];
        let named = |number: u64| match self.channels.get(number as usize) {
            Some((inode, _)) if number < STANDS_FOR => *inode,
            _ => number,
        };

        let mut kind = 0;
        let frame = frame(bytes, repair, |head| {
            head.channel = named(head.channel);
            head.from = named(head.from);
            kind = head.kind;
        });
        let _ = rustix::net::send(end, &frame, SendFlags::DONTWAIT);
        server.serve(*id, view);
        if let Some((head, answer, mut fds)) = reply(end) {
            assert!(head.result <= 0 || head.result == NO_CHANNEL);
            if kind == ucma_frame::OPEN {
                assert!(answer.is_empty() && fds.len() == if head.result == 0 { 2 } else { 0 });
                if let Some(channel) = fds.drain(..).next() {
                    let inode = rustix::fs::fstat(&channel).expect("a channel").st_ino;
                    self.channels.push((inode, channel));
                }
            } else {
                assert!(answer.len() == head.answer_len as usize && fds.is_empty());
                assert!(answer.len() <= ucma_frame::MAX_ANSWER);
                self.done |= head.result == 0;
            }
        }

        if server.sessions.get(*id).is_none() {
            let id = id + PROGRAMS as u64;
            self.ends[program] = (id, enter(server, id, program as u32 + 1));
        }
    }
}

/// A process connects; returns its end.
fn enter(server: &mut Server, id: u64, pid: u32) -> OwnedFd {
    let (socket, end) = connection();
    let caller = Caller {
        session: id,
        pid,
        uid: 1,
        privileged: false,
    };
    let program = Program {
        caller,
        channels: 0,
    };
    server.sessions.insert(id, Session::new(socket, program));
    end
}

/// A MAD has come.
fn incoming(server: &mut Server, incoming: &Incoming, view: &View<'_>) {
    match incoming.mad[1] {
        CLASS_CM => server.receive_message(incoming, view),
        _ => drop(server.receive_answer(incoming, view)),
    }
}

/// A MAD from another host.
fn stranger(bytes: &[u8]) -> Incoming {
    Incoming {
        port: 1,
        qpn: 1,
        from: Address {
            lid: LID,
            grh: Some(Route {
                gid: [7; 16],
                ..Route::default()
            }),
            ..Address::default()
        },
        mad: mad(bytes),
    }
}

fn port() -> IbPort {
    let nowhere = ([127, 0, 0, 1], 0).into();
    IbPort {
        number: 1,
        state: 4,
        phys_state: 5,
        lid: LID,
        lmc: 0,
        sm_lid: LID,
        sm_sl: 0,
        max_mtu: 4096,
        active_mtu: 4096,
        capabilities: 0,
        subnet_timeout: 18,
        init_type_reply: 0,
        width: 2,
        speed: 4,
        vl_cap: 1,
        p_keys: vec![0xffff],
        gids: vec![(0, GID)],
        gid_tbl_len: 1,
        lanes: [0; 16],
        p_key_violations: 0,
        q_key_violations: 0,
        local: nowhere,
        remote: nowhere,
    }
}
