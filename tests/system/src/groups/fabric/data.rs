//! Data between the ports of two hosts that a cable joins.

use super::found::back_to_back;
use crate::harness::case::{Ending, expect};
use crate::lab::Lab;

/// The services over LIDs, with the exchange of the programs themselves.
pub(super) fn over_lids(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &[])?;
    for program in [
        "ibv_rc_pingpong",
        "ibv_uc_pingpong",
        "ibv_ud_pingpong",
        "ibv_srq_pingpong",
    ] {
        let [server, _] = subnet.pair((0, 1), &[program, "-n", "300"], lab.port())?;
        expect(server.out.contains("remote address: LID 0x0002"), || {
            server.out.clone()
        })?;
    }
    // With a GRH, and to the port's own LID.
    subnet.pair(
        (0, 1),
        &["ibv_rc_pingpong", "-n", "300", "-g", "0"],
        lab.port(),
    )?;
    subnet.pair((1, 1), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    for program in ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_lat"] {
        subnet.pair((0, 1), &[program, "-F", "-n", "500"], lab.port())?;
    }
    // By a lane that is not the first.
    for program in ["ib_send_bw", "ib_send_lat"] {
        let line = [program, "-F", "-e", "-X", "1", "-n", "500"];
        subnet.pair((0, 1), &line, lab.port())?;
        subnet.pair((1, 1), &line, lab.port())?;
    }
    Ok(())
}
