//! A MAD tester whose run learns how far it has come. Of the transport tester [`Audited`](crate::audit::Audited) says it.

use crate::protocol::{Command, Reply};
use crate::rig::{Envelope, MadRig};
use crate::run::Progress;
use crate::trace::Trace;
use anyhow::Result;
use ferroce_wire::mad::Mad;
use std::time::Duration;

/// A rig around another one.
pub struct Watched<'r> {
    rig: Box<dyn MadRig + 'r>,
    progress: Progress,
}

impl<'r> Watched<'r> {
    /// Says to `progress` how far `rig` has come, after each thing that it does.
    pub fn new(rig: Box<dyn MadRig + 'r>, progress: Progress) -> Watched<'r> {
        Watched { rig, progress }
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
        let done = self.rig.transmit(port, packet);
        self.tell(done)
    }

    fn receive(&mut self, port: u8, within: Duration) -> Result<Option<(Envelope, Mad)>> {
        let done = self.rig.receive(port, within);
        self.tell(done)
    }

    fn link(&mut self, port: u8, up: bool) -> Result<()> {
        let done = self.rig.link(port, up);
        self.tell(done)
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
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
