//! What all of the group look at: the smallest fabric, and what the tools print of it.

use crate::harness::case::Stop;
use crate::lab::Lab;
use crate::lab::manager::Manager;
use crate::lab::subnet::Subnet;

/// `ibstat` says so of a port that may carry data.
pub(super) const ACTIVE: &str = "State: Active";

/// Two hosts with a cable.
pub(crate) fn back_to_back(lab: &mut Lab) -> Result<Subnet, Stop> {
    lab.vacate();
    let dir = lab.case_dir()?;
    Subnet::back_to_back(lab.programs(), &dir)
}

/// Starts OpenSM on the first host, and waits until the ports of all may carry data.
pub(crate) fn activate(subnet: &mut Subnet) -> Result<Manager, Stop> {
    let manager = subnet.manage(0, &[])?;
    for host in 0..subnet.hosts.len() {
        subnet.wait_for(host, &["ibstat"], ACTIVE)?;
    }
    Ok(manager)
}

/// The number behind a label and dots, as infiniband-diags print them.
pub(super) fn number_after(text: &str, label: &str) -> Option<u64> {
    let (_, rest) = text.split_once(label)?;
    let digits = rest.trim_start_matches('.').lines().next()?.trim();
    digits.parse().ok()
}
