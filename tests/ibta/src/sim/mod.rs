//! The device in this process and in virtual time: ferroce's state machines, and around them hooks for mutants.

mod attributes;
mod backend;
mod device;
mod faults;
mod host;
mod transport;

pub use backend::SimBackend;
pub use faults::{Faults, MadFaults};
pub use transport::SimTransport;
