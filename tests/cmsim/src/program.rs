//! What a program knows about one of its IDs, and which events may come when.

use ferroce_fabric::CmEvent;

/// How far an ID has come, as its program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// We asked; nobody has answered.
    Requested,
    /// We were asked.
    Asked,
    /// We agreed; the other side has not confirmed.
    Accepted,
    /// The other side agreed; we have not confirmed.
    Replied,
    /// Connected.
    Up,
    /// We want to end it.
    Closing,
    /// The other side wants to end it.
    AskedToClose,
    /// Ended, one way or another.
    Over,
    /// Ended, and the time of waiting is over, too.
    Done,
    /// We asked for a datagram service.
    Resolving,
    /// We were asked for a datagram service.
    AskedToResolve,
}

/// A program's record of an ID.
#[derive(Clone, Debug)]
pub struct Program {
    /// How far it has come.
    pub phase: Phase,
    /// A number that no other ID of any host has; travels in the private data.
    pub tag: u32,
    /// The other side's, once it is known.
    pub partner: Option<u32>,
    /// Of the side that asked, its communication ID, once it is known.
    pub comm_id: Option<u32>,
    /// It sends requests as soon as it is connected.
    pub talks: bool,
}

impl Program {
    /// Takes an event; an event that cannot come in this phase is an error. `true` if the program
    /// has something to decide now.
    pub fn take(&mut self, event: &CmEvent) -> Result<bool, String> {
        use Phase::*;

        let (allowed, next): (&[Phase], Phase) = match event {
            CmEvent::Acknowledged(_) => (&[Requested, Accepted], self.phase),
            CmEvent::Reply(rep) => {
                self.partner = Some(tag(&rep.private_data));
                self.comm_id = Some(rep.remote_comm_id);
                (&[Requested], Replied)
            }
            CmEvent::RequestTimedOut => (&[Requested], Over),
            CmEvent::ReplyTimedOut => (&[Accepted], Over),
            CmEvent::Established(_) => (&[Accepted], Up),
            CmEvent::Rejected(_) => (&[Requested, Asked, Accepted, Replied, Up], Over),
            CmEvent::DisconnectRequest(_) => (&[Accepted, Up, Closing], AskedToClose),
            CmEvent::Disconnected(_) => (&[Closing, AskedToClose], Over),
            CmEvent::TimewaitExit => (&[Over], Done),
            CmEvent::ResolveReply(_) | CmEvent::ResolveTimedOut => (&[Resolving], Over),
            CmEvent::Request { .. } | CmEvent::ResolveRequest { .. } => (&[], self.phase),
        };

        if !allowed.contains(&self.phase) {
            return Err(format!("{event:?} while {:?}", self.phase));
        }

        self.phase = next;
        Ok(!matches!(event, CmEvent::Acknowledged(_)))
    }
}

/// The tag at the front of private data.
pub fn tag(private: &[u8]) -> u32 {
    u32::from_be_bytes([private[0], private[1], private[2], private[3]])
}
