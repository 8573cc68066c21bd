//! The device in this process and in virtual time: ferroce's state machines, and around them hooks
//! for mutants.

mod attributes;
mod backend;
mod clock;
mod device;
mod faults;
mod host;
mod mad_faults;
mod node;
mod programs;
mod srq;
mod transport;

pub use backend::SimBackend;
pub use faults::Faults;
pub use mad_faults::{MadFaults, OnCable};
pub use node::MadSim;
pub use transport::SimTransport;
