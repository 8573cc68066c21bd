//! What clients ask, and the answers.

mod capture;
mod faults;
mod sockets;
mod status;
mod whose;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use ferroce_control::objects::ObjectTable;
use ferroce_control::protocol::{
    ClientMessage, DecodeError, Reply, Request, ServerMessage, VERSION,
};
use ferroce_control::seqpacket::ReceiveError;
use ferroce_control::{ControlError, CounterPage, Errno, InboxFds, Network};

use ferroce_wire::mad::Gid;

use crate::adapter::Adapter;
use crate::claims::Claimed;
use crate::clients::Clients;
use crate::connection;
use crate::error::for_programs;
use crate::lent::Lent;
use crate::limits;
use crate::poller::{Poller, Token};
use crate::slots::Claim;
use crate::ucma;

/// How many requests of one client are answered before others have their turn.
const BATCH: usize = 16;

/// An answer and the descriptors that go with it.
struct Answer {
    reply: Reply,
    fds: Vec<OwnedFd>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            fds: Vec::new(),
        }
    }
}

fn refuse(errno: Errno, message: impl Into<String>) -> Answer {
    Reply::Error {
        errno: errno.raw_os_error(),
        message: message.into(),
    }
    .into()
}

fn failed(error: &ControlError) -> Answer {
    out_of_something(Errno::from_raw_os_error(error.errno()), error)
}

/// Refuses for want of something of the daemon's own.
fn out_of_something(errno: Errno, error: &dyn std::fmt::Display) -> Answer {
    let hint = match errno {
        Errno::MFILE => format!(": {}", limits::descriptors()),
        _ => String::new(),
    };
    refuse(for_programs(errno), format!("ferroced: {error}{hint}"))
}

/// What is known of a host for now.
fn host(id: u64, gid_index: u16, gid: Gid, adapter: &mut Adapter) -> Answer {
    // InfiniBand's GIDs are other tables, and its hosts are not asked.
    let own = adapter.gids.entry(gid_index).map(|own| own.index);
    let Some(own) = own.and_then(|index| u8::try_from(index).ok()) else {
        return refuse(Errno::NOENT, format!("GID {gid_index} is not in use"));
    };
    let selective = adapter.hosts.speaks_selective(id, (own, gid));
    Reply::Host { selective }.into()
}

/// What becomes of a connection after a message.
#[derive(PartialEq, Eq)]
enum Verdict {
    Keep,
    Close,
}

impl Clients {
    /// Reads and answers what a client has sent.
    pub(crate) fn serve(
        &mut self,
        id: u64,
        buffer: &mut [u8],
        adapter: &mut Adapter,
        rdma_cm: &ucma::Server,
    ) {
        for _ in 0..BATCH {
            let Some(session) = self.connections.get(id) else {
                return;
            };

            // Descriptors that a client sends are closed at once: no request has any.
            let verdict = match session.receive(buffer) {
                Ok(datagram) => self.answer(id, &buffer[..datagram.len], adapter, rdma_cm),
                Err(ReceiveError::WouldBlock) => return,
                Err(ReceiveError::TooLong | ReceiveError::NoDescriptors) => self.complain(
                    id,
                    "the message is too long or carries too many descriptors",
                ),
                Err(ReceiveError::Closed | ReceiveError::Os(_)) => Verdict::Close,
            };

            if verdict == Verdict::Close {
                self.disconnect(id, adapter);
                return;
            }
            // What comes after it shall find the device as the faults have it.
            if self.faults_changed {
                return;
            }
        }
    }

    fn answer(
        &mut self,
        id: u64,
        bytes: &[u8],
        adapter: &mut Adapter,
        rdma_cm: &ucma::Server,
    ) -> Verdict {
        let message = match ClientMessage::decode(bytes) {
            Ok(message) => message,
            Err(DecodeError::Version {
                theirs,
                id: request,
            }) => {
                let why = format!("this ferroced speaks protocol {VERSION}, not {theirs}");
                self.send(id, request, &refuse(Errno::PROTO, why));
                return Verdict::Close;
            }
            Err(DecodeError::Malformed(why)) => return self.complain(id, &why),
        };

        if let Some(session) = self.connections.get_mut(id) {
            session.state.asks(&message.request);
        }
        let answer = match message.request {
            Request::Attach { name, .. } => self.attach(id, &name, adapter),
            Request::Gids => Reply::Gids(adapter.gids.entries().cloned().collect()).into(),
            Request::Ports => Reply::Ports(adapter.ib_ports()).into(),
            Request::ReceiveSocket { gid_index } => self.receive_socket(id, gid_index, adapter),
            Request::LeaveSocket { addr, scope_id } => {
                self.leave_socket(id, addr, scope_id, adapter)
            }
            Request::SendSocket {
                gid_index,
                to,
                first,
            } => self.send_socket(id, gid_index, to, first, adapter),
            Request::GroupSocket { group, interfaces } => {
                self.group_socket(id, group, interfaces, adapter)
            }
            Request::WayOut { gid_index, to } => sockets::way_out(gid_index, to, adapter),
            Request::Inbox { slot } => self.inbox(id, slot, adapter),
            Request::Objects { slot } => self.objects(id, slot, adapter),
            Request::Host { gid_index, gid } => host(id, gid_index, gid, adapter),
            Request::JoinGroup { port, mgid, at } => self.join_group(id, port, mgid, at, adapter),
            Request::LeaveGroup { at } => {
                if let Some(fabric) = &mut adapter.ib.fabric {
                    fabric.leave_group(id, Some(at));
                }
                Reply::Ok.into()
            }
            Request::Capture(wish) => self.capture(id, wish, adapter),
            Request::CaptureRing => self.next_ring(id),
            Request::Hold => self.hold(&adapter.poller),
            Request::Stay
            | Request::Shutdown
            | Request::AddFault { .. }
            | Request::Faults
            | Request::ClearFaults { .. }
                if !self.administers(id) =>
            {
                refuse(
                    Errno::PERM,
                    "the device is the machine's: only root can stop it, have it stay, or have something go wrong",
                )
            }
            Request::AddFault { fault } => self.add_fault(*fault, adapter),
            Request::Faults => self.list_faults(adapter),
            Request::ClearFaults { id } => self.clear_faults(id, adapter),
            Request::MyFaults => self.faults_of(id, adapter),
            Request::Stay => {
                tracing::info!("a client asks to stay until told to stop");
                self.remain = true;
                Reply::Ok.into()
            }
            Request::Status => Reply::Status(Box::new(self.status(id, adapter, rdma_cm))).into(),
            Request::Shutdown => {
                tracing::info!("a client asks to stop");
                self.stop = true;
                Reply::Ok.into()
            }
        };

        self.send(id, message.id, &answer)
    }

    /// Says that a message made no sense. There is no telling what its sender takes it for, so this
    /// is the end of the connection.
    fn complain(&mut self, id: u64, why: &str) -> Verdict {
        tracing::warn!(id, why, "unintelligible request");
        self.send(
            id,
            0,
            &refuse(Errno::PROTO, format!("unintelligible request: {why}")),
        );
        Verdict::Close
    }

    fn send(&mut self, id: u64, request: u64, answer: &Answer) -> Verdict {
        let Some(session) = self.connections.get(id) else {
            return Verdict::Close;
        };
        let fds: Vec<_> = answer.fds.iter().map(AsFd::as_fd).collect();
        let message = ServerMessage::reply(request, answer.reply.clone());
        match connection::send(session, &message, &fds) {
            Ok(()) => Verdict::Keep,
            Err(errno) => {
                // Who asks without taking the answers is not worth waiting for.
                tracing::warn!(id, error = %errno, "a client does not take its answers");
                Verdict::Close
            }
        }
    }

    fn attach(&mut self, id: u64, name: &str, adapter: &mut Adapter) -> Answer {
        let Some(session) = self.connections.get_mut(id) else {
            return Reply::Ok.into();
        };

        if let Some(why) = session.state.is_taken() {
            return refuse(Errno::INVAL, why);
        }

        let made = CounterPage::create()
            .and_then(|page| Ok((page, ObjectTable::create()?, InboxFds::create()?)))
            .and_then(|(page, objects, inbox)| Ok((page, objects, inbox.duplicate()?, inbox)));
        let ((page, fd), (objects, objects_fd), theirs, inbox) = match made {
            Ok(made) => made,
            Err(error) => return failed(&error),
        };

        let user = adapter.sockets_user(session.state.uid);
        let slot = match self.slots.claim(Instant::now(), user) {
            Claim::Granted(slot) => slot,
            Claim::Wait(time) => {
                let retry_ms = u64::try_from(time.as_millis()).unwrap_or(1_000) + 1;
                return Reply::Busy { retry_ms }.into();
            }
            Claim::Full => {
                return refuse(
                    Errno::BUSY,
                    "all 255 slots of the device are taken: stop programs that use it (`ferroce \
                     status` lists them) or start another ferroced",
                );
            }
            Claim::Others => {
                return refuse(
                    Errno::BUSY,
                    "all 255 slots of the device are, or were, other users', whose sockets cannot be taken from them: start \
                     ferroced again, with CAP_NET_ADMIN and on a kernel with IPsec",
                );
            }
        };
        if let Err(error) = adapter.keep_apart(slot, user) {
            tracing::error!(%error, slot, "a slot stays with its last user");
            self.slots.release(Instant::now(), slot);
            return refuse(Errno::BUSY, format!("ferroced: {error}"));
        }

        adapter.claims.reclaim_rings(slot);

        // A child that it leaves behind may keep the connection open, but has no use of the slot.
        session.watch_process(session.state.pid, Token::Process(id), &adapter.poller);
        let connection = &mut session.state;
        connection.rename(name);
        connection.slot = Some(slot);
        let claimed = Claimed {
            pid: connection.pid,
            uid: connection.uid,
            counters: page,
            objects,
            inbox,
            groups: HashSet::new(),
            lent: Lent::default(),
        };
        adapter.claims.insert(slot, claimed);
        self.captured(id, slot, adapter);
        tracing::debug!(slot, name, "claimed");

        Answer {
            reply: Reply::Attached {
                slot,
                device: adapter.info.clone(),
                network: Network::here(),
            },
            fds: vec![fd, objects_fd, theirs.memory, theirs.wake],
        }
    }

    fn slot_of(&self, id: u64) -> Option<u8> {
        self.connections.get(id)?.state.slot
    }

    fn hold(&mut self, poller: &Poller) -> Answer {
        match self.new_hold(poller) {
            Ok(end) => Answer {
                reply: Reply::Held,
                fds: vec![end],
            },
            Err(errno) => out_of_something(errno, &format_args!("making a pipe: {errno}")),
        }
    }

    fn join_group(
        &mut self,
        id: u64,
        port: u8,
        mgid: [u8; 16],
        at: SocketAddr,
        adapter: &mut Adapter,
    ) -> Answer {
        let joined = match &mut adapter.ib.fabric {
            Some(fabric) if self.slot_of(id).is_some() => fabric.join_group(id, port, mgid, at),
            _ => Err(Errno::INVAL),
        };
        match joined {
            Ok(()) => Reply::Ok.into(),
            Err(errno) => refuse(errno, format!("joining a group at port {port} for {at}")),
        }
    }
}
