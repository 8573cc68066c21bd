//! A fabric of 64 hosts: how long OpenSM takes to discover and route it, and that it is whole.

use std::collections::BTreeSet;
use std::time::Instant;

use super::found::ACTIVE;
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;
use crate::lab::subnet::Subnet;

/// Hosts of the fabric, half of them at either switch.
const HOSTS: usize = 64;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("fabric/64 hosts/discovered and routed", large)]
}

/// Every host has a LID of its own and is active, both switches have a way to each of them, and the
/// last sends to the first. The time, from the start of OpenSM until it says that the subnet is up,
/// is printed.
fn large(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, HOSTS)?;
    for host in 0..HOSTS {
        subnet.wait_for(host, &["ibstat"], "Physical state: LinkUp")?;
    }
    let begin = Instant::now();

    // 64 daemons share the processors with whatever else runs: one may need longer than the 200 ms
    // that OpenSM waits.
    let manager = subnet.manage(0, &["-t", "2000"])?;
    println!(
        "         {HOSTS} hosts on two switches: subnet up {:.2} s after the start of opensm",
        begin.elapsed().as_secs_f64()
    );

    if !manager.errors().is_empty() {
        // What was lost on the way, and where, is in the ports' counters.
        let lost = subnet.attempt(1, &["ibqueryerrors", "--details"])?;
        return Err(Stop::with(manager.errors().join("\n"), &[&lost]));
    }

    let found = subnet.run(1, &["ibnetdiscover"])?;
    let count = |word: &str| found.out.lines().filter(|l| l.starts_with(word)).count();
    expect((count("Ca\t"), count("Switch\t")) == (HOSTS, 2), || {
        found.out.clone()
    })?;
    let mut lids = BTreeSet::new();
    for host in 0..HOSTS {
        subnet.wait_for(host, &["ibstat"], ACTIVE)?;
        let line = ["cat", "/sys/class/infiniband/ferroce0/ports/1/lid"];
        let lid = subnet.run(host, &line)?.out;
        let lid = lid.trim().trim_start_matches("0x");
        lids.insert(u16::from_str_radix(lid, 16).map_err(Stop::fail)?);
    }

    expect(lids.len() == HOSTS && !lids.contains(&0), || {
        format!("{lids:?}")
    })?;
    let tables = subnet.run(0, &["dump_lfts"])?;
    for lid in lids {
        let entries = tables.out.matches(&format!("\n0x{lid:04x} ")).count();
        expect(entries == 2, || {
            format!("{entries} ways to {lid}\n{}", tables.out)
        })?;
    }

    subnet.pair(
        (0, HOSTS - 1),
        &["ibv_rc_pingpong", "-n", "300"],
        lab.port(),
    )?;

    Ok(())
}
