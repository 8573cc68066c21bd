//! What agents send and await: requests until their response or timeout, and RMPP transfers in both
//! directions. No I/O; time is passed in.

use std::time::{Duration, Instant};

use ferroce_cabi::umad::ib_user_mad_hdr;
use ferroce_fabric::rmpp::{self, Progress, Receiver, Sender};
use ferroce_wire::mad::{self, Mad, MadHeader};
use rustix::io::Errno;

use super::agents::Agents;
use super::headers::{address_of, header_of};
use super::send::Send;
use crate::mads::{Incoming, Outgoing};

/// How long a message may take to come in, and how long its end is remembered for repetitions.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(40);
/// How long after its end a message that came is remembered, if there is room.
const LINGER: Duration = Duration::from_secs(5);
/// The most messages on their way in and remembered ones, of all agents.
const MAX_RECEIVING: usize = 256;
/// The most sends under way, of all agents.
const MAX_SENDS: usize = 1 << 16;

/// A message on its way in.
#[derive(Debug)]
struct Receiving {
    agent: u32,
    tid: u64,
    class: u8,
    from: (u16, [u8; 16]),
    receiver: Receiver,
    deadline: Instant,
}

/// What is to be read from a file.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) file: u64,
    pub(crate) header: ib_user_mad_hdr,
    pub(crate) bytes: Vec<u8>,
}

/// What came of a call.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) mads: Vec<Outgoing>,
    pub(crate) deliveries: Vec<Delivery>,
}

/// The exchanges under way.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    sends: Vec<Send>,
    receiving: Vec<Receiving>,
}

impl Exchanges {
    /// An agent sends a message: a MAD from its header on, shorter ones being filled up, or for an
    /// agent with RMPP a longer one.
    pub(crate) fn send(
        &mut self,
        agents: &Agents,
        agent: u32,
        header: &ib_user_mad_hdr,
        message: &[u8],
        now: Instant,
        out: &mut Output,
    ) -> Result<(), Errno> {
        let entry = agents.agent(agent).ok_or(Errno::IO)?;
        let mut mad_header = MadHeader::parse(message).ok_or(Errno::INVAL)?;
        let in_segments = entry.does_rmpp(mad_header.class) && rmpp::is_active(message);
        if message.len() > mad::LEN && !in_segments {
            return Err(Errno::INVAL);
        }

        let mut message = message.to_vec();
        if !mad_header.is_response() {
            mad_header.tid = u64::from(agent) << 32 | mad_header.tid & 0xffff_ffff;
            message[8..16].copy_from_slice(&mad_header.tid.to_be_bytes());
        }

        let own_rmpp = entry.wants.user_rmpp
            && rmpp::has_header(mad_header.class)
            && rmpp::is_active(&message);
        let to = address_of(header);
        let duplicate = |send: &Send| send.agent == agent && send.is_duplicate(&mad_header, &to);
        if !own_rmpp && self.sends.iter().any(duplicate) {
            return Err(Errno::INVAL);
        }

        let old = &header.old;
        let timeout = (old.timeout_ms > 0).then(|| Duration::from_millis(old.timeout_ms.into()));
        let mut first: Mad = [0; mad::LEN];
        let head = message.len().min(mad::LEN);
        first[..head].copy_from_slice(&message[..head]);
        let segments = match in_segments {
            true => Some(Sender::new(message).ok_or(Errno::INVAL)?),
            false => None,
        };

        let send = Send {
            agent,
            tid: mad_header.tid,
            class: mad_header.class,
            response: mad_header.is_response(),
            header: *header,
            to: Outgoing {
                port: entry.wants.port,
                qpn: entry.wants.qpn.into(),
                to,
                mad: first,
            },
            segments,
            timeout,
            retries: old.retries,
            deadline: now,
        };

        if send.timeout.is_none() && send.segments.is_none() {
            out.mads.push(send.to);
            return Ok(());
        }

        if self.sends.len() >= MAX_SENDS {
            return Err(Errno::NOMEM);
        }

        self.sends.push(send);
        if let Some(send) = self.sends.last_mut() {
            send.go(now, out);
        }

        Ok(())
    }

    /// A MAD has come that is this agent's.
    pub(crate) fn receive(
        &mut self,
        agents: &Agents,
        agent: u32,
        incoming: &Incoming,
        now: Instant,
        out: &mut Output,
    ) {
        let (Some(entry), Some(header)) = (agents.agent(agent), MadHeader::parse(&incoming.mad))
        else {
            return;
        };

        let mut message = None;
        if entry.does_rmpp(header.class) && rmpp::is_active(&incoming.mad) {
            match rmpp::kind(&incoming.mad) {
                rmpp::Kind::Data => match self.segment(agent, &header, incoming, now, out) {
                    Some(whole) => message = Some(whole),
                    None => return,
                },
                _ => return self.answered(agent, &header, incoming, now, out),
            }
        }

        if header.is_response() {
            let index = self.sends.iter().position(|send| {
                send.agent == agent
                    && send.tid == header.tid
                    && send.class == header.class
                    && send.timeout.is_some()
            });
            let own_rmpp = entry.wants.user_rmpp
                && rmpp::has_header(header.class)
                && rmpp::is_active(&incoming.mad);
            match index {
                Some(index) => drop(self.sends.swap_remove(index)),
                None if own_rmpp => {}
                None => return,
            }
        }

        out.deliveries.push(Delivery {
            file: entry.file,
            header: header_of(entry.id, incoming),
            bytes: message.unwrap_or_else(|| incoming.mad.to_vec()),
        });
    }

    /// A segment has come. Returns the message that it completes.
    fn segment(
        &mut self,
        agent: u32,
        header: &MadHeader,
        incoming: &Incoming,
        now: Instant,
        out: &mut Output,
    ) -> Option<Vec<u8>> {
        let from = (
            incoming.from.lid,
            incoming.from.grh.map_or([0; 16], |grh| grh.gid),
        );
        let same = |r: &Receiving| {
            (r.agent, r.tid, r.class, r.from) == (agent, header.tid, header.class, from)
        };
        let index = match self.receiving.iter().position(same) {
            Some(index) => index,
            None => {
                if self.receiving.len() >= MAX_RECEIVING {
                    self.forget_one()?;
                }
                self.receiving.push(Receiving {
                    agent,
                    tid: header.tid,
                    class: header.class,
                    from,
                    receiver: Receiver::default(),
                    deadline: now + RECEIVE_TIMEOUT,
                });
                self.receiving.len() - 1
            }
        };

        let entry = &mut self.receiving[index];
        let taken = entry.receiver.take(&incoming.mad);
        if let Some(mad) = taken.answer {
            out.mads.push(incoming.answer(mad));
        }

        match taken.end? {
            Ok(message) => {
                entry.deadline = now + LINGER;
                Some(message)
            }
            Err(_) => {
                self.receiving.swap_remove(index);
                None
            }
        }
    }

    /// Makes room for a message by the one that has been remembered longest; `None`: all are on
    /// their way.
    fn forget_one(&mut self) -> Option<()> {
        let remembered = (self.receiving.iter().enumerate())
            .filter(|(_, receiving)| receiving.receiver.is_done());
        let (oldest, _) = remembered.min_by_key(|(_, receiving)| receiving.deadline)?;
        self.receiving.swap_remove(oldest);
        Some(())
    }

    /// An ACK, STOP or ABORT has come.
    fn answered(
        &mut self,
        agent: u32,
        header: &MadHeader,
        incoming: &Incoming,
        now: Instant,
        out: &mut Output,
    ) {
        let index = self
            .sends
            .iter()
            .position(|send| send.agent == agent && send.is_answered_by(header, &incoming.from));
        let Some(index) = index else { return };
        let send = &mut self.sends[index];
        let Some(sender) = &mut send.segments else {
            return;
        };

        match sender.answered(&incoming.mad) {
            Progress::Going => {
                // Retries are for what is lost at one place, however long the message.
                send.retries = send.header.old.retries;
                send.go(now, out);
            }
            Progress::Waiting => send.go(now, out),
            Progress::Old => {}
            Progress::Done => match send.timeout {
                // The response comes after the whole request.
                Some(timeout) => {
                    send.segments = None;
                    send.retries = 0;
                    send.deadline = now + timeout;
                }
                None => drop(self.sends.swap_remove(index)),
            },
            Progress::Stopped => drop(self.sends.swap_remove(index)),
            Progress::Abort(why) => {
                out.mads
                    .push(incoming.answer(rmpp::abort(&incoming.mad, why)));
                self.sends.swap_remove(index);
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let sends = self.sends.iter().map(|send| send.deadline);
        let receiving = self.receiving.iter().map(|receiving| receiving.deadline);
        sends.chain(receiving).min()
    }

    /// Sends again what has got no answer, and gives up what has been sent often enough.
    pub(crate) fn handle_timeout(&mut self, agents: &Agents, now: Instant, out: &mut Output) {
        self.receiving.retain(|receiving| receiving.deadline > now);
        self.sends.retain_mut(|send| {
            if send.deadline > now {
                return true;
            }

            if send.retries > 0 {
                send.retries -= 1;
                if let Some(sender) = &mut send.segments {
                    sender.again();
                }
                send.go(now, out);
                return true;
            }

            // Nobody waits for the end of a response.
            if let (Some(entry), Some(_)) = (agents.agent(send.agent), send.timeout) {
                out.deliveries.push(send.timed_out(entry.file, entry.id));
            }

            false
        });
    }

    /// Forgets everything about an agent.
    pub(crate) fn remove(&mut self, agent: u32) {
        self.sends.retain(|send| send.agent != agent);
        self.receiving.retain(|receiving| receiving.agent != agent);
    }
}
