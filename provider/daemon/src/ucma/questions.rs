//! What the subnet administrator is asked, and by whom. What becomes of the answers is
//! `infiniband`'s business.

use std::collections::HashMap;
use std::time::Duration;

use ferroce_fabric::cm::Time;
use ferroce_fabric::sa::{Answer, Failure, Question, Record, SaClient};
use ferroce_wire::mad::Mad;
use rustix::io::Errno;

use super::addr::Gid;

/// Upper half of our transaction IDs. Agents of programs are numbered from below.
const MARK: u32 = 0xfe00_0001;
/// The longest that a program may want to wait.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// An id that wants to know where an IP address is.
    Address(u32),
    /// An id that wants a path.
    Path(u32),
    /// A port that made its own address known.
    Name(u8),
    /// A port whose address is not known any more by this GID and P_Key.
    Withdrawal(u8, Gid, u16),
    /// A group of which an id wants to be a member.
    Group(u32),
    /// A port that is to be a member of a group no longer, by these bits of JoinState.
    Leave(u8, Gid, u8),
}

/// What the subnet administrator was asked and has not answered.
#[derive(Debug)]
pub(super) struct Questions {
    client: SaClient,
    askers: HashMap<u32, Asker>,
    /// To be sent, with the ports that they leave by.
    mads: Vec<(u8, Mad)>,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            client: SaClient::new(MARK),
            askers: HashMap::new(),
            mads: Vec::new(),
        }
    }
}

impl Questions {
    /// Asks the subnet administrator. `EAGAIN`: too much is asked already.
    pub(super) fn ask(
        &mut self,
        asker: Asker,
        question: Question,
        patience: Duration,
        now: Time,
    ) -> Result<u32, Errno> {
        let patience = patience.min(MOST_PATIENCE);
        let asked = self.client.ask(now, question, patience);
        let (number, mad) = asked.ok_or(Errno::AGAIN)?;
        self.askers.insert(number, asker);
        self.mads.push((question.port, mad));
        Ok(number)
    }

    /// Whether a MAD that came to a port answers a question.
    pub(super) fn awaits(&self, port: u8, mad: &Mad) -> bool {
        self.client.is_ours(port, mad)
    }

    /// The subnet administrator has answered a question: which, who asked, and what it says.
    pub(super) fn receive(&mut self, port: u8, mad: &Mad) -> Option<(u32, Asker, Answer)> {
        let (number, answer) = self.client.receive(port, mad, &mut self.mads)?;
        Some((number, self.askers.remove(&number)?, answer))
    }

    /// Repeats questions, and gives up those that nobody answers.
    pub(super) fn repeat(&mut self, now: Time) -> Vec<(u32, Asker, Answer)> {
        let due = self.client.handle_timeout(now);
        self.mads.extend(due.again);
        let over = due.over.into_iter();
        over.filter_map(|(number, answer)| Some((number, self.askers.remove(&number)?, answer)))
            .collect()
    }

    /// What is to be sent, with the ports that it leaves by.
    pub(super) fn outgoing(&mut self) -> Vec<(u8, Mad)> {
        std::mem::take(&mut self.mads)
    }

    /// Nobody waits for the answer any more.
    pub(super) fn forget(&mut self, number: u32) {
        self.client.forget(number);
        self.askers.remove(&number);
    }

    /// The numbers of what somebody asks.
    pub(super) fn asked_by(&self, asker: Asker) -> Vec<u32> {
        let own = self.askers.iter().filter(|(_, other)| **other == asker);
        own.map(|(number, _)| *number).collect()
    }

    /// When the next repetition is due.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.client.next_timeout()
    }
}

/// The record of an answer that has one.
pub(super) fn one(answer: Answer) -> Result<Record, Failure> {
    answer?.first().copied().ok_or(Failure::NoRecord)
}

/// An event's status.
pub(super) fn status(failure: Failure) -> i32 {
    let errno = match failure {
        Failure::TimedOut => Errno::TIMEDOUT,
        Failure::NoRecord => Errno::HOSTUNREACH,
        Failure::Refused(status) => {
            tracing::debug!(status, "the subnet administrator refuses");
            Errno::INVAL
        }
    };
    -errno.raw_os_error()
}
