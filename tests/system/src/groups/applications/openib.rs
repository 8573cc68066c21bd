//! Open MPI's own transport over verbs, `btl openib`. As Debian builds it, it connects by `udcm`
//! alone, which takes InfiniBand ports only: so it runs in a fabric, with a subnet manager.

use std::process::Command;

use super::mpi;
use super::running::{LIMIT, counter, expect_success};
use crate::groups::fabric::{activate, back_to_back};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host;

/// No shared memory and no TCP. The device is in no table of Open MPI's, which it would say for
/// each rank.
const OPTIONS: &str = "--mca pml ob1 --mca btl openib,self --mca osc pt2pt --mca btl_openib_allow_ib 1 \
                       --mca btl_openib_warn_no_device_params_found 0 --oversubscribe";

/// `osc pt2pt` serves a compare and swap with its lock held and sends the answer before it lets go.
/// If that has to wait, as for credits of `btl openib`, and another one comes meanwhile, it waits
/// for its own lock for ever.
const IN_TURN: &str = "in-turn";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("applications/fabric/Open MPI, btl openib, 4 ranks", |lab| {
            exchange(lab, false)
        }),
        Case::new(
            "applications/fabric/Open MPI, btl openib, a rank on each of two hosts",
            |lab| exchange(lab, true),
        ),
    ]
}

/// The program of group `mpi`, all of it on one host or a rank on either.
fn exchange(lab: &mut Lab, both: bool) -> Ending {
    let program = mpi::compile("openmpi")?;
    let mut subnet = back_to_back(lab)?;
    let dir = lab.case_dir()?;
    let _manager = activate(&mut subnet)?;
    let [here, there] = [&subnet.hosts[0], &subnet.hosts[1]];
    let before = counter(here, "sent_bytes")? + counter(there, "sent_bytes")?;

    let mut ranks: Command = here.run("mpirun.openmpi");
    ranks.args(OPTIONS.split_whitespace());
    mpi::allow_root(&mut ranks);
    match both {
        false => ranks.args(["-np", "4"]).arg(&program).arg(IN_TURN),
        true => {
            ranks.args(["-np", "1"]).arg(&program).arg(IN_TURN);
            ranks.args([":", "-np", "1", "env"]);
            // What `ferroce run` has set for this host.
            for name in host::VARIABLES {
                ranks.args(["-u", name]);
            }
            ranks.args(there.prefix()).arg(&program).arg(IN_TURN)
        }
    };

    let ran = process::run(ranks, &dir, "ranks", LIMIT)?;
    expect_success(&[&ran])?;
    let bytes = mpi::messages(&ran)?;
    let sent = counter(here, "sent_bytes")? + counter(there, "sent_bytes")? - before;
    match sent >= bytes {
        true => Ok(()),
        false => Err(Stop::with(
            format!("{sent} bytes went through the devices, not {bytes} or more"),
            &[&ran],
        )),
    }
}
