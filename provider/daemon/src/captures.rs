//! Captures under way: a reader each, and for it a ring of each program that it may see, which the
//! program writes to and the reader takes out of. The daemon makes the rings and says in them when
//! one of the two has gone; of what it sends and receives itself it has rings, too ([`Tap`]).

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ferroce_control::ControlError;
use ferroce_control::capture::record::{Medium, Packet, Record, What};
use ferroce_control::capture::{CaptureHead, CaptureWish, CaptureWriter};

use crate::users::Users;

/// Readers that there may be.
pub(crate) const MOST: usize = 8;
/// The daemon's own slot.
pub(crate) const OWN: u8 = 0;

/// A ring's descriptors: for the program and for the reader.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) program: OwnedFd,
    pub(crate) reader: OwnedFd,
}

/// All captures.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    /// By the reader's connection.
    all: BTreeMap<u64, Capture>,
    tap: Tap,
}

#[derive(Debug)]
struct Capture {
    /// The reader's user.
    uid: u32,
    wish: CaptureWish,
    /// By the program's slot.
    rings: HashMap<u8, CaptureHead>,
}

impl Capture {
    fn may_see(&self, uid: u32) -> bool {
        self.uid == uid || Users::administers(self.uid)
    }
}

impl Captures {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Where the daemon records what it sends and receives itself.
    pub(crate) fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Begins the capture of a reader.
    pub(crate) fn begin(&mut self, reader: u64, uid: u32, wish: CaptureWish) {
        let capture = Capture {
            uid,
            wish,
            rings: HashMap::new(),
        };
        self.all.insert(reader, capture);
    }

    /// The readers that may see what a user's program does.
    pub(crate) fn readers(&self, uid: u32) -> Vec<u64> {
        let readers = self.all.iter();
        let readers = readers.filter(|(_, capture)| capture.may_see(uid));
        readers.map(|(reader, _)| *reader).collect()
    }

    /// A ring from the program that has a slot to a reader; none if he may not see what it does, or
    /// has it already.
    pub(crate) fn ring(
        &mut self,
        reader: u64,
        slot: u8,
        uid: u32,
    ) -> Result<Option<Ends>, ControlError> {
        let Some(capture) = self.all.get_mut(&reader) else {
            return Ok(None);
        };
        if !capture.may_see(uid) || capture.rings.contains_key(&slot) {
            return Ok(None);
        }

        let (head, memory) = CaptureHead::create(&capture.wish)?;
        let reader = memory.try_clone().map_err(|source| ControlError::Io {
            what: "duplicating a ring of a capture",
            source,
        })?;
        capture.rings.insert(slot, head);
        Ok(Some(Ends {
            program: memory,
            reader,
        }))
    }

    /// The daemon's own ring to a reader who administers the device: its messages are of all users'
    /// connections. Returns the reader's end.
    pub(crate) fn own_ring(&mut self, reader: u64) -> Result<Option<OwnedFd>, ControlError> {
        let uid = rustix::process::geteuid().as_raw();
        let Some(ends) = self.ring(reader, OWN, uid)? else {
            return Ok(None);
        };
        let writer = CaptureWriter::open(ends.program)?;
        self.tap.writers().push(writer);
        Ok(Some(ends.reader))
    }

    /// A program has gone. Returns the readers that had a ring of it.
    pub(crate) fn left(&mut self, slot: u8) -> Vec<u64> {
        let mut readers = Vec::new();
        for (reader, capture) in &mut self.all {
            if let Some(ring) = capture.rings.remove(&slot) {
                ring.leave();
                readers.push(*reader);
            }
        }
        readers
    }

    /// A reader has gone. Returns the slots of the programs that had a ring to him.
    pub(crate) fn end(&mut self, reader: u64) -> Vec<u8> {
        let Some(capture) = self.all.remove(&reader) else {
            return Vec::new();
        };
        capture.rings.values().for_each(CaptureHead::end);
        self.tap.writers().retain(|writer| !writer.is_over());
        capture.rings.into_keys().collect()
    }
}

/// Where what the daemon sends and receives at QP0 and QP1 is recorded. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tap(Arc<Mutex<Vec<CaptureWriter>>>);

impl Tap {
    fn writers(&self) -> MutexGuard<'_, Vec<CaptureWriter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a packet from BTH or LRH to ICRC, if anybody captures. `qpn`: the daemon's own queue
    /// pair.
    pub(crate) fn record(&self, qpn: u32, way: Way, bytes: &[u8]) {
        let mut writers = self.writers();
        if writers.is_empty() {
            return;
        }

        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = now.map_or(0, |now| now.as_nanos() as u64);
        let packet = Packet {
            incoming: way.incoming,
            refused: false,
            medium: way.medium,
            original: bytes.len() as u32,
            from: way.from,
            to: way.to,
            traffic_class: way.traffic_class,
            hop_limit: way.hop_limit,
            id: way.id,
            flow_label: 0,
        };
        let record = Record {
            time,
            qpn,
            what: What::Packet(packet),
        };
        for writer in writers.iter_mut() {
            writer.put(&record, bytes);
        }
    }
}

/// How a packet of the daemon's goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) incoming: bool,
    pub(crate) medium: Medium,
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    /// IPv4's Identification.
    pub(crate) id: u16,
}
