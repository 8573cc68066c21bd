//! The device in this process and in virtual time: ferroce's state machines, and around them hooks for mutants.

mod backend;
mod faults;

pub use backend::SimBackend;
pub use faults::{Faults, MadFaults};
