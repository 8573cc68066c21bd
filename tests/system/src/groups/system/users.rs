//! What a user of the machine's device may not do to others, and who is no user of it.

use super::programs::Part;
use super::{LIMIT, Site, refused, said};
use crate::harness::case::{Ending, Stop, expect};
use crate::harness::process::{self, Running};
use crate::lab::machine::{MEMBERS, STRANGER};

const FERROCE: &str = "/opt/ferroce/bin/ferroce --runtime-dir /run/ferroce";
/// Asks the daemon what only another user, or root, is given, and says what came of it.
const ASK: &str = include_str!("ask.py");

pub(super) fn parts() -> Vec<(&'static str, Part)> {
    vec![
        ("who is not of the group has no device", stranger),
        ("users do not stop the device", stop),
        ("memory is shared within a user", memory),
        ("users do not see each other's programs", programs),
        ("users capture their own programs", capture),
        // The last: it leaves the device's sockets without their steering, which a user can.
        ("users reach nothing of each other's", reach),
    ]
}

/// He is told so by a stock program, and the daemon does not talk to him.
fn stranger(site: &Site) -> Ending {
    let shown = site.login("stranger", STRANGER, "ibv_devinfo")?;
    expect(
        !shown.success()
            && shown.err.contains("Permission denied")
            && shown.err.contains("group rdma"),
        || format!("a stranger is told\n{}{}", shown.out, shown.err),
    )?;
    expect(!shown.out.contains("PORT_ACTIVE"), || {
        format!("a stranger has the device:\n{}", shown.out)
    })
}

fn stop(site: &Site) -> Ending {
    let down = site.login("down", MEMBERS[0], &format!("{FERROCE} down"))?;
    refused(&down, &["only root"])?;
    let stay = site.login("stay", MEMBERS[0], &format!("{FERROCE} env"))?;
    refused(&stay, &["only root"])?;
    for words in ["add --loss 1%", "list", "clear"] {
        let fault = site.login("fault", MEMBERS[0], &format!("{FERROCE} fault {words}"))?;
        refused(&fault, &["only root"])?;
    }
    said(
        &site.ferroce("still", &["--runtime-dir", "/run/ferroce", "status"])?,
        &[],
    )
}

/// How many packets went through memory so far.
fn through_memory(site: &Site, name: &str) -> Result<u64, Stop> {
    let status = site.daemon(name)?;
    let counter = status["counters"]["sent_loopback_pkts"].as_u64();
    counter.ok_or_else(|| Stop::fail(format!("no sent_loopback_pkts in {status}")))
}

/// So far all programs were two users'. Two of one user's share memory.
fn memory(site: &Site) -> Ending {
    let before = through_memory(site, "memory-before")?;
    expect(before == 0, || {
        format!("{before} packets went through memory between two users")
    })?;
    let waiting = hold(site, "memory-server", MEMBERS[0])?;
    release(site, "memory-client", MEMBERS[0], waiting)?;
    let after = through_memory(site, "memory-after")?;
    expect(after > 0, || {
        "one user's programs share no memory".to_owned()
    })
}

/// A program of a user's that has the device, and waits for its peer.
pub(super) fn hold(site: &Site, name: &str, user: &str) -> Result<Running, Stop> {
    let line = "ib_write_bw -F -n 1000 -p 18603";
    let mut running = process::spawn(site.machine.login(user, line), &site.dir, name)?;
    match running.listens(18_603, LIMIT) {
        true => Ok(running),
        false => Err(Stop::with("does not come to listen", &[&running.kill()])),
    }
}

/// Lets such a program have its peer, a user's, so that both end.
pub(super) fn release(site: &Site, name: &str, user: &str, waiting: Running) -> Ending {
    let line = "ib_write_bw -F -n 1000 -p 18603 127.0.0.1";
    let client = site.login(name, user, line)?;
    let server = waiting.finish_after(&client, LIMIT);
    match client.success() && server.success() {
        true => Ok(()),
        false => Err(Stop::with("does not end well", &[&client, &server])),
    }
}

/// `ferroce status` and `rdma resource` show a user his own; root is shown all.
fn programs(site: &Site) -> Ending {
    let waiting = hold(site, "seen-server", MEMBERS[0])?;
    let lines = [
        format!("{FERROCE} status"),
        format!("{FERROCE} run -- rdma resource show ctx"),
        format!("{FERROCE} top --batch -n 1"),
    ];
    let ending = lines.iter().enumerate().try_for_each(|(n, line)| {
        let seen = |user: &str, who: &str| -> Result<bool, Stop> {
            let shown = site.login(&format!("seen-{n}-{who}"), user, line)?;
            said(&shown, &[])?;
            Ok(shown.out.contains("ib_write_bw"))
        };
        let (own, other) = (seen(MEMBERS[0], "own")?, seen(MEMBERS[1], "other")?);
        let root = seen("root", "root")?;
        expect(own && root && !other, || {
            format!("{line}: own {own}, root {root}, another user {other}")
        })
    });
    release(site, "seen-client", MEMBERS[0], waiting).and(ending)
}

/// Who speaks to the daemon by himself gets no inbox of another user's, no MADs, no other steering.
fn reach(site: &Site) -> Ending {
    let waiting = hold(site, "reach-server", MEMBERS[0])?;
    let script = site.dir.join("ask.py");
    std::fs::write(&script, ASK).map_err(anyhow::Error::from)?;
    let command = site.machine.login(MEMBERS[1], "/usr/bin/python3 -");
    let input = std::fs::File::open(&script).map_err(anyhow::Error::from)?;
    let asked = process::spawn_with(command, input.into(), &site.dir, "asked")?.finish(LIMIT);
    release(site, "reach-client", MEMBERS[0], waiting)?;
    said(
        &asked,
        &[
            "inboxes of others: 0",
            "tables of others: 0, of its own: 1",
            "another user's inbox: EACCES",
            "umad: EACCES",
            "another steering: EPERM",
        ],
    )
}

/// One user's transfer, captured by himself, by another user and by root: the first sees his
/// packets and none of the daemon's, which are of all users' connections, the second nothing.
fn capture(site: &Site) -> Ending {
    let readers = [MEMBERS[0], MEMBERS[1], "root"];
    let mut running = Vec::new();
    for reader in readers {
        let line = format!("{FERROCE} capture --text");
        let command = site.machine.login(reader, &line);
        let name = format!("capture-{reader}");
        let mut capture = process::spawn(command, &site.dir, &name)?;
        if !capture.wait_until(LIMIT, |running| running.errors().contains("capturing")) {
            return Err(Stop::with("does not capture", &[&capture.kill()]));
        }
        running.push(capture);
    }

    let server = process::spawn(
        site.machine.login(MEMBERS[0], "rping -s -C 2 -a 127.0.0.1"),
        &site.dir,
        "captured-server",
    )?;
    let wait = site.login("wait", MEMBERS[0], &format!("{FERROCE} wait 7174"))?;
    said(&wait, &[])?;
    let client = site.login("captured-client", MEMBERS[0], "rping -c -C 2 -a 127.0.0.1")?;
    let server = server.finish_after(&client, LIMIT);
    if !client.success() || !server.success() {
        return Err(Stop::with("rping", &[&client, &server]));
    }

    // Root has seen the end of the connection, so the others have seen what they ever will, but for
    // what they hold back to have it in order.
    let over = |running: &Running| running.output().contains("CM DREP");
    let seen_all = running[2].wait_until(LIMIT, over);
    let own = running[0].wait_until(LIMIT, |running| running.output().contains("rping["));
    let shown: Vec<String> = running
        .into_iter()
        .map(|capture| capture.kill().out)
        .collect();
    expect(seen_all && shown[2].contains("rping["), || {
        format!("root sees\n{}", shown[2])
    })?;
    expect(own && !shown[0].contains("ferroced["), || {
        format!("the user himself sees\n{}", shown[0])
    })?;
    expect(shown[1].is_empty(), || {
        format!("another user sees\n{}", shown[1])
    })
}
