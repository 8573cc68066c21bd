//! Sending: packets of one QP become runs, as long as the port takes them.
//!
//! A connected QP has one path; a datagram's follows from its address handle and destination, and
//! consecutive ones to the same place share a run.
//!
//! Headers, ICRCs and short payloads go into one arena, where the ICRC of a packet and the header
//! of the next are neighbours and make one iovec; longer payloads are sent from where they are in
//! the consumer's memory.

mod gather;
mod leaving;
mod scratch;
mod together;

use std::sync::Arc;

use ferroce_control::objects::{QpMoment, QpRow};
use ferroce_control::{Counter, CounterPage};
use ferroce_transport::{Gather, MemoryError, Sink, Time, TxPacket};
use ferroce_wire::{ICRC_LEN, NakCode, Syndrome, opcode, packet, stretch};

pub(crate) use self::together::Together;

use self::scratch::{MAX_IOVECS, SCRATCH, Scratch};
use crate::datapath::path::Path;
use crate::hca::Hca;
use crate::instrument::{Tapped, Taps};
use crate::memory::keys::{KeyTable, Peer};
use crate::port::{Exit, Form, Outgoing};
use crate::verbs::ah_table::AhTable;
use crate::verbs::xrc::Domain;

/// Where packets go.
pub(crate) enum Way<'a> {
    /// To the connected peer.
    Path(&'a Arc<Path>),
    /// To whom their address handles name.
    Datagrams {
        hca: &'a Hca,
        handles: &'a AhTable,
        /// The last one's address handle and slot (0 and 0 if it was of an earlier visit), and the
        /// path.
        last: Option<(u32, u8, Arc<Path>)>,
    },
}

impl Way<'_> {
    fn path(&self) -> Option<&Path> {
        match self {
            Way::Path(path) => Some(path),
            Way::Datagrams { last, .. } => last.as_ref().map(|(_, _, path)| &**path),
        }
    }

    fn exit(&self) -> Option<&Exit> {
        self.path().map(|path| &path.exit)
    }
}

/// What packets are gathered under.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) keys: &'a KeyTable,
    /// The QP in its protection domain.
    pub(crate) peer: Peer,
    /// XRC target: the shared receive queues that have protection domains of their own.
    pub(crate) domain: Option<&'a Domain>,
    pub(crate) counters: &'a CounterPage,
    pub(crate) taps: &'a Taps,
    /// The QP's own numbers.
    pub(crate) row: &'a QpRow,
    pub(crate) now: Time,
    /// The P_Key that the packets bear.
    pub(crate) p_key: u16,
    /// Path MTU of the connection.
    pub(crate) mtu: u16,
    /// Nobody acknowledges the packets, so that they are paced.
    pub(crate) paced: bool,
    /// Each packet is looked at by itself.
    pub(crate) tapped: Option<Tapped<'a>>,
}

/// A sink that gathers from registered memory and sends on one path at a time.
pub(crate) struct Run<'a> {
    way: Way<'a>,
    source: Source<'a>,
    scratch: &'a mut Scratch,
    /// Bytes of the arena in use, and where the piece begins that no iovec covers yet.
    used: usize,
    open: usize,
    bytes: usize,
    segments: usize,
    segment: usize,
    /// A shorter packet ended the run.
    closed: bool,
    /// There are responses in the run, and requests.
    responses: bool,
    requests: bool,
    /// A stretch was sent, perhaps not to be seen before something else is.
    stretched: bool,
    /// Packets and bytes of the run that other queue pairs have left (`together`).
    others: (usize, usize),
}

/// Runs `f` with a sink and sends what it queued.
pub(super) fn with_run<R>(
    way: Way<'_>,
    source: Source<'_>,
    f: impl FnOnce(&mut Run<'_>) -> R,
) -> R {
    let go = |scratch: &mut Scratch| {
        scratch.iov.clear();
        let mut run = Run {
            way,
            source,
            scratch,
            used: 0,
            open: 0,
            bytes: 0,
            segments: 0,
            segment: 0,
            closed: false,
            responses: false,
            requests: false,
            stretched: false,
            others: (0, 0),
        };

        run.join();
        let r = f(&mut run);
        if !run.leave() {
            run.flush();
        }
        r
    };

    // A process that exits has lost its threads' storage, and may still have a last ACK to send.
    let mut go = Some(go);
    let result = SCRATCH.try_with(|s| go.take().map(|go| go(&mut s.borrow_mut())));
    match (result, go) {
        (Ok(Some(r)), _) => r,
        (_, Some(go)) => go(&mut Scratch::new()),
        _ => unreachable!("the closure was called once or is still here"),
    }
}

impl Run<'_> {
    /// Sends the run and begins a new one.
    fn send(&mut self) {
        if self.segments == 0 {
            return;
        }
        self.seal();
        let form = match self.segments {
            1 => Form::Packets(None),
            _ => Form::Packets(Some(self.segment as u16)),
        };
        self.hand_over(0, (self.segments, self.bytes), form, self.others);
        self.begin_anew();
    }

    /// Sends a stretch by itself, behind what is there.
    fn send_stretch(&mut self, packet: &TxPacket<'_>, total: usize) -> Result<(), MemoryError> {
        self.send();
        let (len, packets) = (payload_len(&packet.payload), packet.packets);
        let appended = self.append(packet, len, total, 0);
        if appended.is_ok() {
            self.seal();
            let bytes = total + stretch::more_bytes(packet.bth.opcode, packets);
            let form = Form::Stretch(self.source.mtu);
            self.hand_over(0, (packets as usize, bytes), form, (0, 0));
            self.stretched = true;
        }
        self.begin_anew();
        appended
    }

    fn begin_anew(&mut self) {
        self.scratch.iov.clear();
        (self.used, self.open, self.bytes, self.segments) = (0, 0, 0, 0);
        (self.segment, self.closed) = (0, false);
        (self.responses, self.requests) = (false, false);
        self.others = (0, 0);
    }

    /// Sends an ACK that cannot join the run by itself and before it. Behind it, it might come to a
    /// receiver that has handled the requests and woken its program: then the answer to a message
    /// completes before the message itself, which no adapter does. Nothing is gathered for an ACK,
    /// so nothing can fail.
    fn send_ahead(&mut self, packet: &TxPacket<'_>, total: usize) -> Result<(), MemoryError> {
        self.seal();
        let (used, iovecs) = (self.used, self.scratch.iov.len());
        self.append(packet, 0, total, 0)?;
        self.seal();
        self.hand_over(iovecs, (1, total), Form::Packets(None), (0, 0));
        self.scratch.iov.truncate(iovecs);
        (self.used, self.open) = (used, used);
        Ok(())
    }

    /// How many bytes may go out on the path that was used last, or when to ask again.
    pub(crate) fn allowance(&self, now: Time) -> Result<u64, Time> {
        match &self.way {
            Way::Path(path) => {
                let taken = path.exit.allowance(now)?;
                Ok(taken.min(path.congestion.allowance(now)?))
            }
            Way::Datagrams { .. } => self
                .way
                .exit()
                .map_or(Ok(u64::MAX), |exit| exit.allowance(now)),
        }
    }

    /// The path that the last datagram took.
    pub(crate) fn last_path(&self) -> Option<Arc<Path>> {
        match &self.way {
            Way::Path(_) => None,
            Way::Datagrams { last, .. } => last.as_ref().map(|(_, _, path)| path.clone()),
        }
    }

    /// Makes the path of a datagram the current one. `false`: it cannot be sent, and is lost.
    fn route(&mut self, ah: u32, slot: u8) -> Result<bool, MemoryError> {
        let Way::Datagrams { hca, handles, last } = &mut self.way else {
            return Err(MemoryError::Key);
        };
        if matches!(last, Some((a, s, _)) if (*a, *s) == (ah, slot)) {
            return Ok(true);
        }

        // The consumer must keep it while requests refer to it.
        let target = handles.get(ah).ok_or(MemoryError::Address)?;
        let Ok(path) = target.path(hca, slot) else {
            self.source.counters.add(Counter::TxErrors, 1);
            return Ok(false);
        };

        if matches!(last, Some((_, _, before)) if Arc::ptr_eq(before, &path)) {
            *last = Some((ah, slot, path));
            return Ok(true);
        }

        self.send();
        if let Way::Datagrams { last, .. } = &mut self.way {
            *last = Some((ah, slot, path));
        }

        Ok(true)
    }

    /// Counts what is sent again, and what is refused.
    fn count(&self, packet: &TxPacket<'_>) {
        let Source {
            counters, row, now, ..
        } = self.source;
        let count = |counter| {
            counters.add(counter, 1);
            row.count(counter, 1);
        };

        if packet.again {
            count(Counter::RetransmittedPackets);
            row.happened(QpMoment::SentAgain, now.as_nanos());
        }
        match packet.ext.aeth.map(|aeth| aeth.kind()) {
            Some(Syndrome::RnrNak { .. }) => {
                count(Counter::OutOfBuffer);
                row.happened(QpMoment::RnrSent, now.as_nanos());
            }
            Some(Syndrome::Nak(NakCode::PsnSequenceError)) => count(Counter::SeqErrNakSent),
            Some(Syndrome::Nak(NakCode::RemoteAccessError)) => {
                count(Counter::RespRemoteAccessErrors);
            }
            _ => {}
        }
    }
}

fn payload_len(payload: &Gather<'_>) -> usize {
    match payload {
        Gather::None => 0,
        Gather::Bytes(b) => b.len(),
        Gather::Sges { len, .. } | Gather::Remote { len, .. } => *len as usize,
    }
}

impl Sink for Run<'_> {
    fn packet(&mut self, packet: &TxPacket<'_>) -> Result<(), MemoryError> {
        if let Some(ah) = packet.ah
            && !self.route(ah, (packet.bth.dest_qp >> 16) as u8)?
        {
            return Ok(());
        }

        let len = payload_len(&packet.payload);
        let lead = self.way.exit().map_or(0, Outgoing::lead_len);
        let around = packet::around_len(&packet.bth, packet.filler);
        let total = lead + packet::header_len(&packet.bth) + len + around + ICRC_LEN;
        let pieces = match packet.payload {
            Gather::Sges { sges, .. } => sges.len(),
            _ => 1,
        };

        if packet.packets > 1 {
            return self.send_stretch(packet, total);
        }

        let answers = packet.ext.aeth.is_some() || matches!(packet.payload, Gather::Remote { .. });
        // Requests of one queue pair do not go with responses of another.
        let alike = self.others.0 == 0 || answers == self.responses;
        let joins = self.segments > 0
            && alike
            && !self.closed
            && total <= self.segment
            && self.scratch.iov.len() + 2 * pieces + 2 <= MAX_IOVECS
            && self.has_room(total);

        let acknowledges = packet.bth.opcode == opcode::RC_ACKNOWLEDGE;
        if !joins && acknowledges && self.segments > 0 && !self.responses {
            self.count(packet);
            return self.send_ahead(packet, total);
        }

        if !joins {
            self.send();
            self.segment = total;
        }

        let before = (self.used, self.open, self.scratch.iov.len());
        if let Err(e) = self.append(packet, len, total, self.segments as u16) {
            let iovecs;
            (self.used, self.open, iovecs) = before;
            self.scratch.iov.truncate(iovecs);
            return Err(e);
        }

        if packet.again || acknowledges {
            self.count(packet);
        }

        self.segments += 1;
        self.bytes += total;
        self.responses |= answers;
        self.requests |= !answers;
        self.closed = total < self.segment || self.source.tapped.is_some();
        Ok(())
    }

    fn flush(&mut self) {
        self.send();
        if std::mem::take(&mut self.stretched)
            && let Some(exit) = self.way.exit()
        {
            exit.show();
        }
    }
}

/// A sink for QPs without a path: they have nothing to send, only requests to flush.
pub(crate) struct NoPath;

impl Sink for NoPath {
    fn packet(&mut self, _: &TxPacket<'_>) -> Result<(), MemoryError> {
        Ok(())
    }
}
