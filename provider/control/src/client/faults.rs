//! What can be asked about faults.

use std::thread;
use std::time::{Duration, Instant};

use super::{Client, unexpected};
use crate::ControlError;
use crate::faults::{Fault, FaultList, GivenFaults};
use crate::protocol::{Reply, Request};

/// How often it is looked whether programs go by a change; nobody tells.
const PAUSE: Duration = Duration::from_millis(2);

impl Client {
    /// Has something go wrong from now on; returns the fault's number. `EPERM`: the device is of
    /// several users, and this one does not administer it; `EINVAL`: its parts do not go together;
    /// `ENOSPC`: there are as many as there can be.
    pub fn add_fault(&mut self, fault: Fault) -> Result<u32, ControlError> {
        let fault = Box::new(fault);
        match self.call(Request::AddFault { fault })? {
            (Reply::FaultAdded { id }, _) => Ok(id),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// What goes wrong.
    pub fn faults(&mut self) -> Result<FaultList, ControlError> {
        match self.call(Request::Faults)? {
            (Reply::Faults(list), _) => Ok(list),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The same when every program goes by the faults as they are, or has had so much time: those
    /// that do not are named in it.
    pub fn settled_faults(&mut self, patience: Duration) -> Result<FaultList, ControlError> {
        let deadline = Instant::now() + patience;
        loop {
            let list = self.faults()?;
            if list.behind.is_empty() || Instant::now() >= deadline {
                return Ok(list);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Ends a fault (`ENOENT`: there is none of that number), or all.
    pub fn clear_faults(&mut self, id: Option<u32>) -> Result<(), ControlError> {
        self.plain(Request::ClearFaults { id })
    }

    /// What goes wrong for this program. Needs [`attach`](Self::attach) first (`EINVAL`).
    pub fn my_faults(&mut self) -> Result<GivenFaults, ControlError> {
        match self.call(Request::MyFaults)? {
            (Reply::MyFaults(given), _) => Ok(given),
            (other, _) => Err(unexpected(&other)),
        }
    }
}
