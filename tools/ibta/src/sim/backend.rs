//! Makes simulated rigs.

use super::{Faults, MadFaults, MadSim, SimTransport};
use crate::rig::{Backend, MadRig, TransportRig};
use crate::run::Stop;
use anyhow::Result;

/// Rigs with a simulated device, sound or a mutant.
#[derive(Default)]
pub struct SimBackend {
    /// Hooks of the next transport rig.
    pub faults: Option<Faults>,
    /// Hooks of the next MAD rig.
    pub mad_faults: Option<MadFaults>,
}

impl Backend for SimBackend {
    fn transport(&mut self) -> Result<Box<dyn TransportRig + '_>> {
        Ok(Box::new(SimTransport::new(
            self.faults.take().unwrap_or_default(),
        )))
    }

    fn mad(&mut self, ports: u8, lanes: u8) -> Result<Box<dyn MadRig + '_>, Stop> {
        let faults = self.mad_faults.take().unwrap_or_default();
        Ok(Box::new(MadSim::new(ports, lanes, faults)))
    }
}
