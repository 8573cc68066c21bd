//! Requests that are refused, completions and verbs that fail.

use super::{Scene, said};
use crate::harness::case::{Ending, Stop};

/// A requester waits and sends again, for ever where it is to (rnr_retry 7); or it gives up.
pub(super) fn not_ready(scene: &Scene<'_>) -> Ending {
    let line = "ibv_rc_pingpong -g 0 -c -n 100";
    scene.survives("--rnr --count 5", line, ("rnr_nak_retry_err", 1))?;
    scene.clear()
}

/// The requester's work request ends with what the NAK says, as the program says.
pub(super) fn naks(scene: &Scene<'_>) -> Ending {
    let line = "ib_write_bw -F -n 100";
    for (code, status) in [
        ("invalid-request", 9),
        ("remote-access", 10),
        ("remote-operation", 11),
    ] {
        let fault = format!("--nak {code} --nth 20");
        scene.says(&fault, line, &format!("Failed status {status}:"))?;
    }
    // This one is sent again.
    let pingpong = "ibv_rc_pingpong -g 0 -c -s 16384 -n 100";
    scene.survives("--nak psn --every 50", pingpong, ("packet_seq_err", 1))
}

/// A request that has succeeded completes with an error, at the one end and at the other.
pub(super) fn completions(scene: &Scene<'_>) -> Ending {
    let line = "ib_send_bw -F -n 500";
    scene.says("--wc-error general --nth 3", line, "Failed status 21:")?;
    scene.says("--wc-error loc-prot --in --nth 3", line, "Failed status 4")?;
    let pingpong = "ibv_rc_pingpong -g 0 -n 100";
    scene.says("--wc-error fatal --nth 5", pingpong, "fatal error (19)")
}

/// Verbs fail as for want of memory, or with another errno, as often as they are to.
pub(super) fn verbs(scene: &Scene<'_>) -> Ending {
    for (verb, words) in [
        ("create_qp", "Couldn't create QP"),
        ("create_cq", "Couldn't create CQ"),
        ("alloc_pd", "Couldn't allocate PD"),
        ("reg_mr", "Couldn't register MR"),
        ("modify_qp", "Failed to modify QP to INIT"),
    ] {
        scene.add(&format!("--alloc-fail {verb} --program ibv_rc_pingpong"))?;
        let finished = scene.alone(&["ibv_rc_pingpong", "-g", "0"])?;
        said(&finished, words)?;
        if finished.success() || scene.hits()? == 0 {
            return Err(Stop::with(format!("{verb} does not fail"), &[&finished]));
        }
        scene.clear()?;
    }

    // Others go on.
    scene.add("--alloc-fail create_qp=EAGAIN --program nobody")?;
    scene.run("ibv_rc_pingpong -g 0 -n 10")?.clean()
}
