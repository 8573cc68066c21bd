//! What programs of the device are told, by the device's side.

use super::Tester;
use crate::protocol::{AsyncEvent, Command, PortState, Reply, refusal};
use crate::rig::MadRig;
use crate::run::{Outcome, Run, Stop};
use anyhow::anyhow;
use std::time::Duration;

/// Whether there are cables to at least so many ports of the device.
///
/// # Errors
/// Not applicable if the device has fewer ports, incomplete if it is cables that are missing; the
/// rig failed.
pub fn reach(rig: &mut dyn MadRig, at_least: u8) -> Outcome {
    let cables = rig.ports();
    if cables >= at_least {
        return Ok(());
    }

    let device = match rig.command(&Command::Device)? {
        Reply::Device(device) => device,
        reply => return Err(anyhow!("the device side answers {reply:?}").into()),
    };
    let has = device.ports_in_words();
    Err(match device.ports < at_least {
        true => Stop::NotApplicable(format!("the device has {has}, and {at_least} are needed")),
        false => Stop::Incomplete(format!(
            "the device has {has}, of which {cables} can be reached, and {at_least} are needed: \
             a cable is missing, add --cable LOCAL=REMOTE"
        )),
    })
}

impl Tester<'_> {
    /// An assertion that compares ports with each other is not for a device with one.
    ///
    /// # Errors
    /// It has more, and only one has a cable; the rig failed.
    pub fn has_others(&mut self, run: &mut Run, assertion: &str) -> Outcome {
        match reach(self.rig, 2) {
            Err(Stop::NotApplicable(why)) => {
                run.not_applicable(assertion, why);
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Has the device side do something that must succeed; `None` if it cannot do such a thing.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn command(&mut self, command: &Command) -> Outcome<Option<Reply>> {
        match self.rig.command(command)? {
            // EOPNOTSUPP and ENOSYS.
            Reply::Errno { code: 95 | 38, .. } => Ok(None),
            Reply::Errno { code, what } => Err(refusal(&what, code).into()),
            reply => Ok(Some(reply)),
        }
    }

    /// What programs are told of a port.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn query_port(&mut self, port: u8) -> Outcome<PortState> {
        match self.command(&Command::QueryPort { port })? {
            Some(Reply::Port(state)) => Ok(state),
            reply => Err(anyhow!("ibv_query_port answers {reply:?}").into()),
        }
    }

    /// Takes the events that programs have been told of, and forgets them.
    ///
    /// # Errors
    /// The rig failed.
    pub fn forget_events(&mut self) -> Outcome {
        while !self.events(Duration::from_millis(50))?.is_empty() {}
        Ok(())
    }

    /// The events that programs are told of.
    ///
    /// # Errors
    /// The rig failed.
    pub fn events(&mut self, within: Duration) -> Outcome<Vec<AsyncEvent>> {
        match self.command(&Command::Events { within })? {
            Some(Reply::Events { events }) => Ok(events),
            reply => Err(anyhow!("the device side answers {reply:?}").into()),
        }
    }

    /// Waits for an event of a port; whether it came.
    ///
    /// # Errors
    /// The rig failed.
    pub fn event_comes(&mut self, port: u8, event: u32) -> Outcome<bool> {
        let wanted = AsyncEvent {
            event,
            element: port.into(),
        };
        let (begun, patience) = (self.rig.now(), self.rig.patience());
        loop {
            let left = patience.saturating_sub(self.waited_since(begun));
            if left.is_zero() {
                return Ok(false);
            }
            if self.events(left)?.contains(&wanted) {
                return Ok(true);
            }
        }
    }
}
