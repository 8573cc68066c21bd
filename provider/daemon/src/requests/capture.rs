//! Requests about captures, and who hears of their rings. A connection is a program's, that writes,
//! or a reader's: each takes its ends of rings one by one, when an event has told of them.

use ferroce_control::capture::{CaptureSource, CaptureWish};
use ferroce_control::protocol::Reply;
use ferroce_control::{ControlError, Event};

use super::{Answer, Errno, failed, refuse};
use crate::adapter::Adapter;
use crate::captures::{MOST, OWN};
use crate::clients::Clients;

impl Clients {
    /// Begins a capture. Programs that are there get their rings now, others when they attach.
    pub(super) fn capture(&mut self, id: u64, wish: CaptureWish, adapter: &mut Adapter) -> Answer {
        let Some(session) = self.connections.get_mut(id) else {
            return Reply::Ok.into();
        };
        let connection = &mut session.state;
        if let Some(why) = connection.is_taken() {
            return refuse(Errno::INVAL, why);
        }
        if adapter.captures.len() >= MOST {
            let why = format!("{MOST} captures are under way, and there can be no more: end one");
            return refuse(Errno::BUSY, why);
        }

        connection.reads = true;
        adapter.captures.begin(id, connection.uid, wish);
        let programs = self.connections.iter();
        let programs: Vec<(u64, u8, u32)> = programs
            .filter_map(|(id, session)| Some((id, session.state.slot?, session.state.uid)))
            .collect();
        let own = self.own_ring(id, adapter);
        let rings = programs
            .into_iter()
            .map(|(program, slot, uid)| self.ring((id, program), slot, uid, adapter));
        let made: Result<Vec<()>, ControlError> = std::iter::once(own).chain(rings).collect();

        if let Err(error) = made {
            self.end_capture(id, adapter);
            if let Some(session) = self.connections.get_mut(id) {
                session.state.reads = false;
                session.state.rings.clear();
            }
            return failed(&error);
        }
        tracing::info!(id, "a client captures packets");
        Reply::Ok.into()
    }

    /// The next ring that a connection has not got.
    pub(super) fn next_ring(&mut self, id: u64) -> Answer {
        let session = self.connections.get_mut(id);
        match session.and_then(|session| session.state.rings.pop_front()) {
            None => Reply::CaptureRing(None).into(),
            Some((source, ring)) => Answer {
                reply: Reply::CaptureRing(Some(source)),
                fds: vec![ring],
            },
        }
    }

    /// A program has attached: whoever captures and may see it gets a ring of it.
    pub(super) fn captured(&mut self, id: u64, slot: u8, adapter: &mut Adapter) {
        let Some(uid) = self.uid_of(id) else { return };
        for reader in adapter.captures.readers(uid) {
            if let Err(error) = self.ring((reader, id), slot, uid, adapter) {
                tracing::warn!(%error, slot, "a program is not captured");
            }
        }
    }

    /// What a connection's end means to captures.
    pub(crate) fn end_capture(&mut self, id: u64, adapter: &mut Adapter) {
        let slots = adapter.captures.end(id);
        let programs: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, session)| session.state.slot.is_some_and(|slot| slots.contains(&slot)))
            .map(|(program, _)| program)
            .collect();
        for program in programs {
            self.tell(program, Event::Captures, adapter);
        }
    }

    /// A program has gone.
    pub(crate) fn left_captures(&mut self, slot: u8, adapter: &mut Adapter) {
        for reader in adapter.captures.left(slot) {
            self.tell(reader, Event::Captures, adapter);
        }
    }

    /// Makes a ring to a reader from a program, if he may see it, and tells both.
    fn ring(
        &mut self,
        (reader, program): (u64, u64),
        slot: u8,
        uid: u32,
        adapter: &mut Adapter,
    ) -> Result<(), ControlError> {
        let Some(ends) = adapter.captures.ring(reader, slot, uid)? else {
            return Ok(());
        };
        let Some(source) = self.connections.get(program).map(|session| CaptureSource {
            slot,
            pid: session.state.pid,
            name: session.state.name.clone(),
        }) else {
            return Ok(());
        };

        for (id, ring) in [(reader, ends.reader), (program, ends.program)] {
            if let Some(session) = self.connections.get_mut(id) {
                session.state.rings.push_back((source.clone(), ring));
            }
            self.tell(id, Event::Captures, adapter);
        }
        Ok(())
    }

    /// Makes the ring of the daemon's own packets to a reader, if he may see them.
    fn own_ring(&mut self, reader: u64, adapter: &mut Adapter) -> Result<(), ControlError> {
        let Some(ring) = adapter.captures.own_ring(reader)? else {
            return Ok(());
        };
        let source = CaptureSource {
            slot: OWN,
            pid: std::process::id(),
            name: "ferroced".to_owned(),
        };
        if let Some(session) = self.connections.get_mut(reader) {
            session.state.rings.push_back((source, ring));
        }
        Ok(())
    }
}
