//! How a test waits for the completions of a channel's queue pair, or for none.

use super::Channel;
use super::commands::{must, unexpected};
use crate::protocol::{Command, Completion, Reply, Side};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use anyhow::Result;
use std::time::Duration;

impl Channel {
    /// Takes completions: as soon as `at_most` are there, or those that are after that time.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn poll(
        &self,
        rig: &mut dyn TransportRig,
        queue: Side,
        at_most: u32,
        within: Duration,
    ) -> Result<Vec<Completion>> {
        let poll = Command::Poll {
            qp: self.qp,
            queue,
            at_most,
            within,
        };
        match must(rig, poll)? {
            Reply::Completions { completions } => Ok(completions),
            other => unexpected(other),
        }
    }

    /// PollDut: exactly one completion comes.
    ///
    /// # Errors
    /// None came, and the assertion failed.
    pub fn poll_one(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: impl ToString,
        queue: Side,
    ) -> Outcome<Completion> {
        let all = self.poll_all(rig, queue)?;
        self.only(run, assertion, &all)
    }

    /// PollDut: waits for a completion, and takes whatever is there with it.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn poll_all(&self, rig: &mut dyn TransportRig, queue: Side) -> Result<Vec<Completion>> {
        let patience = rig.patience();
        let mut all = self.poll(rig, queue, 1, patience)?;
        all.extend(self.poll(rig, queue, u32::MAX, Duration::ZERO)?);
        Ok(all)
    }

    /// Exactly one completion is there.
    ///
    /// # Errors
    /// None is, or several, and the assertion failed.
    pub fn only(
        &self,
        run: &mut Run,
        assertion: impl ToString,
        all: &[Completion],
    ) -> Outcome<Completion> {
        run.check(assertion, all.len() == 1, || {
            format!("{} completions, must be one: {all:?}", all.len())
        })?;
        Ok(all[0])
    }

    /// PollDut: no completion comes.
    ///
    /// # Errors
    /// One came, and the assertion failed.
    pub fn verify_no_completion(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: impl ToString,
        queue: Side,
    ) -> Outcome {
        let silence = rig.silence();
        let all = self.poll(rig, queue, 1, silence)?;
        run.check(assertion, all.is_empty(), || {
            format!("a completion came that must not: {all:?}")
        })
    }
}
