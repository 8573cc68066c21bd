//! The InfiniBand conformance suite: a MAD tester and a transport tester in software, and the tests
//! that they carry out.
//!
//! A test is a plain blocking function against a trait of [`rig`], written once. It runs on two
//! backends: the device is ferroce's own state machines in this process and in virtual time
//! ([`sim`]), or any verbs device that the tester reaches over the wire, with an agent beside it
//! that posts what the test says.
//!
//! - [`catalog`]: what a test is, its statements and its mutants; [`suite`]: the tests themselves,
//!   and the list of all;
//! - [`run`]: steps, assertions and how a test ends; [`audit`]: what holds of every completion;
//!   [`execute`]: runs a test on a backend; [`statement`]: numbers of statements; [`known`]: those
//!   whose subject is known;
//! - [`packet`], [`channel`], [`mad`]: what tests speak of; [`protocol`]: what the device side is
//!   asked to do;
//! - [`real`]: the tester of real devices;
//! - [`trace`]: every packet of a test, for a capture file.
//!
//! A test never reads a clock, never sleeps by itself and never knows on which backend it runs.
#![forbid(unsafe_code)]

pub mod audit;
pub mod catalog;
pub mod channel;
pub mod execute;
pub mod generic;
pub mod known;
pub mod mad;
pub mod mutate;
pub mod packet;
pub mod protocol;
pub mod real;
pub mod report;
pub mod rig;
pub mod run;
pub mod sim;
pub mod statement;
pub mod suite;
pub mod trace;
mod watch;

pub use catalog::{Body, Mutant, Test};
pub use packet::{RxPacket, TxPacket};
pub use rig::{MadRig, TransportRig};
pub use run::{Outcome, Run, Stop};
