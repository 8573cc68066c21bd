//! The rings of all programs, and the order of time across them.

use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use ferroce_control::Client;
use ferroce_control::capture::{CaptureReader, CaptureSource};

use crate::error::Error;
use crate::item::{Filter, Item};

/// How long a record is kept for earlier ones of other programs to come, in nanoseconds: a program
/// may lose the processor between its look at the clock and its ring.
const PATIENCE: u64 = 30_000_000;
/// Bytes that are kept at most for that.
const MOST_HELD: usize = 256 << 20;

/// All rings, and what was taken out of them.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    rings: Vec<(Rc<CaptureSource>, CaptureReader)>,
    held: Vec<Item>,
    bytes: usize,
    /// Until when all had been taken out at the last look.
    seen: u64,
    /// What was lost of rings that have gone.
    lost: u64,
}

impl Sources {
    /// Takes the rings over that the daemon has for us.
    pub(crate) fn take_rings(&mut self, client: &mut Client, filter: &Filter) -> Result<(), Error> {
        while let Some((source, memory)) = client.capture_ring()? {
            if filter.wants(&source) {
                let ring = CaptureReader::open(memory)?;
                self.rings.push((Rc::new(source), ring));
            }
        }
        Ok(())
    }

    /// Takes out what programs have put in; returns how many bytes it was.
    pub(crate) fn look(&mut self, mut complain: impl FnMut(&str)) -> Result<u64, Error> {
        self.seen = now();
        let mut taken = 0;
        let Sources {
            rings, held, bytes, ..
        } = self;

        // Whoever has gone puts nothing in any more: asked before the look.
        let mut gone = Vec::new();
        for (source, ring) in rings.iter_mut() {
            let last = ring.is_gone();
            taken += ring.take(|record, data| {
                *bytes += data.len() + size_of::<Item>();
                held.push(Item {
                    source: source.clone(),
                    record: *record,
                    data: data.to_vec(),
                });
            })?;
            if ring.is_broken() {
                let CaptureSource { name, pid, .. } = &**source;
                complain(&format!(
                    "what {name}[{pid}] shows makes no sense, and is left out"
                ));
            }
            gone.push(last || ring.is_broken());
        }

        let mut gone = gone.into_iter();
        for (_, ring) in rings.extract_if(.., |_| gone.next().unwrap_or_default()) {
            self.lost += ring.lost();
        }
        Ok(taken)
    }

    /// What can be shown, in the order of time: to which nothing earlier will come. `all`: nothing
    /// will come.
    pub(crate) fn ready(&mut self, all: bool) -> Vec<Item> {
        self.held.sort_by_key(|item| item.record.time);
        let until = match all || self.bytes > MOST_HELD {
            true => u64::MAX,
            false => self.seen.saturating_sub(PATIENCE),
        };
        let ready = self.held.partition_point(|item| item.record.time <= until);
        let ready: Vec<Item> = self.held.drain(..ready).collect();
        let size = |item: &Item| item.data.len() + size_of::<Item>();
        self.bytes -= ready.iter().map(size).sum::<usize>();
        ready
    }

    /// Records that found no room, of all programs.
    pub(crate) fn lost(&self) -> u64 {
        let rings = self.rings.iter().map(|(_, ring)| ring.lost());
        rings.fold(self.lost, u64::saturating_add)
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}
