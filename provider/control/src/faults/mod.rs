//! Faults on command: what is to go wrong, for whom, how often and for how long. One vocabulary for
//! the command line, scenario files, the protocol and what is shown.
//!
//! What becomes of a packet follows from the fault's seed and from the packet's place among those
//! of its queue pair that the fault is about (`schedule`): a run that is repeated has the same, and
//! queue pairs have nothing to do with each other. Nothing is carried out here.

mod expression;
mod fault;
mod fit;
mod hits;
mod names;
mod options;
mod schedule;
mod text;

pub use expression::{Expression, ExpressionError, MAX_EXPRESSION};
pub use fault::{Action, Damage, Direction, Fault, Often, Target, Whom};
pub use fit::Unfit;
pub use names::{Errno, Nak, Status, Verb};
pub use options::{AllocFail, Options, Where};
pub use schedule::{Course, Draw, Lane};
pub use text::{Delay, QpNumber, Share, Span, TextError};

use serde::{Deserialize, Serialize};

use crate::ClientStatus;

/// The most faults of a device, those that are over and still shown included.
pub const MAX_FAULTS: usize = 64;

/// A fault as the daemon has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultStatus {
    /// Its number, from 1; none comes twice.
    pub id: u32,
    /// The fault.
    pub fault: Fault,
    /// How often it has hit, in all programs, those that have gone included.
    pub hits: u64,
    /// Milliseconds that it has left; `None`: until it is cleared.
    pub left_ms: Option<u64>,
    /// Its time is over. It stays to be looked at until it is cleared.
    pub over: bool,
}

/// All faults of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultList {
    /// In the order of their numbers.
    pub faults: Vec<FaultStatus>,
    /// Programs that go by an older list as yet: they are stopped, or busy.
    pub behind: Vec<ClientStatus>,
}

/// A fault as a program gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its number.
    pub id: u32,
    /// Where its hits are counted, below [`MAX_FAULTS`].
    pub place: u8,
    /// The fault.
    pub fault: Fault,
    /// Nanoseconds that it has left; `None`: until it is cleared.
    pub left_ns: Option<u64>,
}

/// The faults of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenFaults {
    /// Which list this is: it grows with each change. The program says that it goes by it
    /// ([`CounterPage::take_faults`](crate::CounterPage::take_faults)).
    pub generation: u64,
    /// In the order of their numbers.
    pub faults: Vec<Given>,
}

#[cfg(test)]
mod tests;
