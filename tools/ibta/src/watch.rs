//! A MAD tester whose run learns how far it has come, and that keeps a ledger of what it asked and
//! was answered. Of the transport tester [`Audited`](crate::audit::Audited) does both.

use crate::audit::management::Ledger;
use crate::audit::{self, MADS};
use crate::mad::wire;
use crate::protocol::{Command, Reply};
use crate::rig::{Envelope, MadRig};
use crate::run::{Outcome, Progress, Run, Stop};
use crate::trace::Trace;
use anyhow::Result;
use ferroce_wire::mad::Mad;
use std::time::Duration;

/// How soon programs are told of what the subnet manager has changed.
const SOON: Duration = Duration::from_secs(1);

/// A rig around another one.
pub(crate) struct Watched<'r> {
    rig: Box<dyn MadRig + 'r>,
    progress: Progress,
    ledger: Ledger,
    /// A subnet manager came or went behind a port: its capabilities are not what they were.
    is_sm: bool,
}

impl<'r> Watched<'r> {
    /// Says to `progress` how far `rig` has come, after each thing that it does.
    pub(crate) fn new(rig: Box<dyn MadRig + 'r>, progress: Progress) -> Watched<'r> {
        Watched {
            rig,
            progress,
            ledger: Ledger::default(),
            is_sm: false,
        }
    }

    /// Decides whether every MAD was right, also where the tester cannot go on: it may have been
    /// told nonsense.
    ///
    /// # Errors
    /// One was not, or the rig or the tester failed.
    pub(crate) fn conclude(&mut self, run: &mut Run, outcome: Outcome) -> Outcome {
        if !matches!(outcome, Ok(()) | Err(Stop::Broken(_))) {
            return outcome;
        }

        for port in self.ledger.known_ports() {
            let deadline = self.rig.now() + SOON;
            // Programs may hear of a change a moment later.
            while let Err(why) = self.compare(port)? {
                if self.rig.now() >= deadline {
                    self.ledger
                        .note(format!("port {port}: programs are told otherwise: {why}"));
                    break;
                }
                self.rig.sleep(SOON / 10)?;
            }
        }

        audit::decide(run, MADS, self.ledger.seen, &self.ledger.wrong)?;
        outcome
    }

    /// Whether programs are told the same of a port.
    fn compare(&mut self, port: u8) -> Result<Result<(), String>> {
        let replies = [
            self.rig.command(&Command::Device)?,
            self.rig.command(&Command::QueryPort { port })?,
            self.rig.command(&Command::QueryGid { port, index: 0 })?,
        ];
        Ok(self.ledger.compare(port, &replies, self.is_sm))
    }

    fn tell<T>(&self, done: T) -> T {
        let packets = self.rig.trace().frames.len();
        self.progress.set(self.rig.now(), packets);
        done
    }
}

impl MadRig for Watched<'_> {
    fn now(&self) -> Duration {
        self.rig.now()
    }

    fn ports(&self) -> u8 {
        self.rig.ports()
    }

    fn transmit(&mut self, port: u8, packet: &[u8]) -> Result<()> {
        if let Ok((_, mad)) = wire::read(packet) {
            self.ledger.transmitted(port, &mad);
        }
        let done = self.rig.transmit(port, packet);
        self.tell(done)
    }

    fn receive(&mut self, port: u8, within: Duration) -> Result<Option<(Envelope, Mad)>> {
        let done = self.rig.receive(port, within);
        if let Ok(Some((from, mad))) = &done {
            self.ledger.received(port, from, mad);
        }
        self.tell(done)
    }

    fn link(&mut self, port: u8, up: bool) -> Result<()> {
        self.ledger.forget(port);
        let done = self.rig.link(port, up);
        self.tell(done)
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        self.is_sm |= matches!(command, Command::IsSm { .. });
        let done = self.rig.command(command);
        self.tell(done)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        let done = self.rig.sleep(time);
        self.tell(done)
    }

    fn trace(&self) -> &Trace {
        self.rig.trace()
    }

    fn stalled(&self, from: Duration, to: Duration) -> Duration {
        self.rig.stalled(from, to)
    }

    fn for_ever(&self) -> Duration {
        self.rig.for_ever()
    }

    fn patience(&self) -> Duration {
        self.rig.patience()
    }
}
