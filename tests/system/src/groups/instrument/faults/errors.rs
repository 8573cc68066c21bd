//! Requests that are refused, completions and verbs that fail.

use super::{LIMIT, Scene, said};
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Finished, Running};

/// A requester waits and sends again, for ever where it is to (rnr_retry 7); or it gives up.
pub(super) fn not_ready(scene: &Scene<'_>) -> Ending {
    let line = "ibv_rc_pingpong -g 0 -c -n 100";
    scene.survives("--rnr --count 5", line, ("rnr_nak_retry_err", 1))?;
    scene.clear()?;

    // Its client retries never, and does not look at the status that it gets: the counter tells.
    scene.add("--rnr")?;
    let before = scene.counter("retry_rnr_exceeded_err")?;
    let ends = [(scene.server(), "-b"), (scene.client(), "-s")];
    let mut running = Vec::new();
    for (host, option) in ends {
        let mut command = host.run("ucmatose");
        let port = scene.port.to_string();
        command.args([option, &scene.server().address, "-p", &port, "-C", "10"]);
        running.push(process::spawn(
            command,
            scene.dir(),
            &format!("ucmatose{option}"),
        )?);
        let mut wait = scene.server().ferroce();
        wait.args(["wait", &port]);
        process::run(wait, scene.dir(), "wait", LIMIT)?;
    }
    let gave_up = |_: &Running| {
        let now = scene.counter("retry_rnr_exceeded_err");
        now.is_ok_and(|now| now > before)
    };
    let given_up = running[1].wait_until(LIMIT, gave_up);
    let ended: Vec<Finished> = running.into_iter().map(Running::kill).collect();
    match given_up {
        true => Ok(()),
        false => {
            let what = "the requester does not give up";
            Err(Stop::with(what, &[&ended[0], &ended[1]]))
        }
    }
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
