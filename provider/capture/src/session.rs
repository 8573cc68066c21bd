//! A capture under way: rings are looked at, and what was in them goes to an output.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferroce_control::capture::record::What;
use ferroce_control::{Client, ControlError, Event};

use crate::error::Error;
use crate::item::{Filter, Item};
use crate::sources::Sources;

/// How often rings are looked at that had little in them. Programs wake nobody.
const PAUSE: Duration = Duration::from_millis(10);
/// A look that brings more is followed by the next at once.
const BUSY: u64 = 64 << 10;

/// Where what is shown goes.
pub trait Output {
    /// A packet, or something that was done by verbs.
    fn put(&mut self, item: &Item) -> Result<(), Error>;
    /// Nothing that was shown is kept back.
    fn flush(&mut self) -> Result<(), Error>;
    /// Something that is wrong with what is captured, and goes on.
    fn complain(&mut self, what: &str);
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to, or its time is over.
    Told,
    /// There were as many packets as were asked for.
    Enough,
    /// The daemon has gone, and the device with it.
    Gone,
}

/// A capture under way.
#[derive(Debug)]
pub struct Session {
    sources: Sources,
    filter: Filter,
    /// Packets that are yet to be shown.
    left: u64,
    shown: u64,
}

impl Session {
    /// Shows what the filter lets through, and so many packets at most.
    pub fn new(filter: Filter, most: u64) -> Session {
        Session {
            sources: Sources::default(),
            filter,
            left: most,
            shown: 0,
        }
    }

    /// Packets that were shown.
    pub fn shown(&self) -> u64 {
        self.shown
    }

    /// Records that found no room, of all programs.
    pub fn lost(&self) -> u64 {
        self.sources.lost()
    }

    /// Takes the ends of the rings that there are. The client has begun a capture.
    ///
    /// # Errors
    /// The daemon's, or a ring's.
    pub fn begin(&mut self, client: &mut Client) -> Result<(), Error> {
        self.addresses(client)?;
        self.sources.take_rings(client, &self.filter)
    }

    /// Shows what is captured until it is told to `stop`, the time is over, or there was enough.
    ///
    /// # Errors
    /// The daemon's, a ring's or the output's.
    pub fn run(
        &mut self,
        client: &mut Client,
        stop: &AtomicBool,
        time: Option<Duration>,
        output: &mut impl Output,
    ) -> Result<Ended, Error> {
        let end = time.map(|time| Instant::now() + time);
        let mut gone = false;

        loop {
            let told = stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
            // Before the last look, too: a program may have come and gone since.
            while let Some(event) = client.try_event() {
                gone |= self.heed(event, client)?;
            }
            let over = told || gone;
            let bytes = self.sources.look(|what| output.complain(what))?;
            for item in self.sources.ready(over) {
                self.show(&item, output)?;
                if self.left == 0 {
                    output.flush()?;
                    return Ok(Ended::Enough);
                }
            }
            output.flush()?;
            if over {
                return Ok(if gone { Ended::Gone } else { Ended::Told });
            }

            let pause = if bytes > BUSY { Duration::ZERO } else { PAUSE };
            if let Some(event) = client.wait_event(pause) {
                gone |= self.heed(event, client)?;
            }
        }
    }

    /// Whether it says that the daemon goes.
    fn heed(&mut self, event: Event, client: &mut Client) -> Result<bool, Error> {
        let heeded = match event {
            Event::Captures => self.sources.take_rings(client, &self.filter),
            Event::GidChange => self.addresses(client),
            Event::Shutdown => return Ok(true),
            Event::PortState { .. }
            | Event::Link { .. }
            | Event::Port { .. }
            | Event::Faults
            | Event::Hosts => Ok(()),
        };
        match heeded {
            // It went before it could answer.
            Err(Error::Control(ControlError::Closed)) => Ok(true),
            heeded => heeded.map(|()| false),
        }
    }

    fn addresses(&mut self, client: &mut Client) -> Result<(), Error> {
        let gids = client.gids()?;
        let addresses = gids.into_iter().map(|gid| gid.addr).collect();
        self.filter.set_addresses(addresses);
        Ok(())
    }

    fn show(&mut self, item: &Item, output: &mut impl Output) -> Result<(), Error> {
        if !self.filter.admits(item) {
            return Ok(());
        }
        if matches!(item.record.what, What::Packet(_)) {
            self.shown += 1;
            self.left -= 1;
        }
        output.put(item)
    }
}
