//! Multicast groups where a device, or its host, has several interfaces.

use crate::groups::verbs::interfaces::{SECOND, hosts, in_subnet, join_again, programs};
use crate::groups::verbs::watch::ip;
use crate::harness::case::Ending;
use crate::lab::Lab;
use crate::lab::netns::{ADDRESSES, ADDRESSES_V6, INTERFACES};
use crate::programs::mckey;

/// Of the second link.
const BEYOND: [[&str; 2]; 2] = [["10.79.0.1", "10.79.0.2"], ["fd79::1", "fd79::2"]];

/// What comes by either link is heard, also of a group that is another one on each.
pub(super) fn on_each_link(lab: &mut Lab, apart: bool) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, far) = hosts(lab)?;
    join_again(&hosts, far)?;
    in_subnet(&hosts, BEYOND[0], BEYOND[1])?;
    for (index, host) in hosts.iter_mut().enumerate() {
        let all = [ADDRESSES, ADDRESSES_V6, BEYOND[0], BEYOND[1]];
        let options: Vec<&str> = all.iter().flat_map(|of| ["--addr", of[index]]).collect();
        host.up_with(&options)?;
    }
    let aside = programs(&hosts[0], apart)?;
    let ends = [aside.as_ref().unwrap_or(&hosts[0]), &hosts[1]];
    // A sender sleeps for three seconds, so these are few.
    let of_a_link = "ff12::77:1";
    mckey::heard(ends, ADDRESSES_V6, of_a_link, &dir)?;
    mckey::heard(ends, BEYOND[1], of_a_link, &dir)?;
    mckey::heard(
        [ends[1], ends[0]],
        [BEYOND[1][1], BEYOND[1][0]],
        of_a_link,
        &dir,
    )?;
    mckey::heard(ends, BEYOND[0], "239.77.0.5", &dir)
}

/// What is sent leaves by the device's own interface.
pub(super) fn address_twice(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, far) = hosts(lab)?;
    join_again(&hosts, far)?;
    for (host, interface) in hosts.iter_mut().zip(INTERFACES) {
        host.up_with(&["--netdev", interface])?;
    }
    let own = format!("{}/32", ADDRESSES[0]);
    let twice = ["addr", "add", &own, "peer", "10.81.0.9", "dev", SECOND[0]];
    ip(&hosts[0], &twice)?;
    let ends = [&hosts[1], &hosts[0]];
    mckey::heard(ends, [ADDRESSES[1], ADDRESSES[0]], "239.77.0.6", &dir)
}
