//! What programs of the device are told, by the device's side.

use super::Tester;
use crate::protocol::{AsyncEvent, Command, PortState, Reply};
use crate::run::Outcome;
use anyhow::anyhow;
use std::time::Duration;

impl Tester<'_> {
    /// Has the device side do something that must succeed; `None` if it cannot do such a thing.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn command(&mut self, command: &Command) -> Outcome<Option<Reply>> {
        match self.rig.command(command)? {
            // EOPNOTSUPP and ENOSYS.
            Reply::Errno { code: 95 | 38, .. } => Ok(None),
            Reply::Errno { code, what } => Err(anyhow!("{what}: errno {code}").into()),
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
