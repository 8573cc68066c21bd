//! What must be answered, with which status, and what must not be answered.

use super::names::name;
use super::{Answer, Sent, Smp, Tester};
use crate::run::{Outcome, Run, Stop};
use anyhow::anyhow;
use std::time::Duration;

impl Tester<'_> {
    /// Sends and receives, and there must be an answer.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn must_answer(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        request: &Smp,
    ) -> Outcome<Answer> {
        let answer = self.ask(port, request)?;
        run.check(assertion, answer.is_some(), || {
            format!("no answer to {} by port {port}", name(request))
        })?;
        Ok(answer.expect("just checked"))
    }

    /// Sends and receives, and the answer must have this status.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn must_have_status(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        request: &Smp,
        status: u16,
    ) -> Outcome<Answer> {
        let answer = self.must_answer(run, assertion, port, request)?;
        run.check(assertion, answer.status() == status, || {
            format!(
                "{} by port {port} is answered with status {:#06x}, must be {status:#06x}",
                name(request),
                answer.status()
            )
        })?;
        Ok(answer)
    }

    /// VerifyNoReceiveMad: sends, waits as long as an answer could take, and there must be none.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn verify_no_receive_mad(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        sent: &Sent,
    ) -> Outcome {
        let within = self.response_timeout(port);
        let answer = self.answer_until(port, sent, within)?;
        run.check(assertion, answer.is_none(), || {
            let answer = answer.expect("there is one");
            format!(
                "port {port} answers with method {:#x}, status {:#06x}, where it must be silent",
                answer.header.method,
                answer.status()
            )
        })
    }

    /// VerifyNoReceiveMad of several requests that were sent together: one wait for all.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn verify_none_received(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        sent: &[Sent],
    ) -> Outcome {
        let Some((last, earlier)) = sent.split_last() else {
            return Ok(());
        };
        self.verify_no_receive_mad(run, assertion, port, last)?;
        for sent in earlier {
            let answer = self.answer_until(port, sent, Duration::ZERO)?;
            run.check(assertion, answer.is_none(), || {
                format!(
                    "port {port} answers transaction {:#x} where it must be silent",
                    sent.tid
                )
            })?;
        }
        Ok(())
    }

    /// Sends, and there must be no answer.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn must_be_silent(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        request: &Smp,
    ) -> Outcome {
        let sent = self.send_mad(port, request)?;
        self.verify_no_receive_mad(run, assertion, port, &sent)
    }

    /// Asks for what must be answered for the test to go on.
    ///
    /// # Errors
    /// The device does not answer, or with a status; or the rig failed.
    pub fn good(&mut self, port: u8, request: &Smp) -> Outcome<Answer> {
        let answer = self.ask(port, request)?;
        let answer =
            answer.ok_or_else(|| anyhow!("no answer to {} by port {port}", name(request)))?;
        if answer.status() != 0 {
            return Err(Stop::Broken(anyhow!(
                "{} by port {port} is refused with status {:#06x}",
                name(request),
                answer.status()
            )));
        }
        Ok(answer)
    }
}
