//! The port, its addresses, and connections.

use std::time::Duration;

use super::{LIMIT, Scene, said};
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Running};

/// `ibv_asyncwatch`, which says what it is told at once.
fn watch(scene: &Scene<'_>) -> Result<Running, Stop> {
    let mut command = scene.server().run("stdbuf");
    command.args(["-oL", "ibv_asyncwatch", "-d", "ferroce0"]);
    let mut watch = process::spawn(command, scene.dir(), "watch")?;
    hears(&mut watch, "async event FD")?;
    Ok(watch)
}

fn hears(watch: &mut Running, wanted: &str) -> Ending {
    match watch.wait_until(LIMIT, |watch| watch.output().contains(wanted)) {
        true => Ok(()),
        false => Err(Stop::fail(format!(
            "{wanted:?} does not come: {}",
            watch.output()
        ))),
    }
}

/// Programs are told that the port is down and that it is up again, and what they send is lost
/// meanwhile.
pub(super) fn port(scene: &Scene<'_>) -> Ending {
    let mut watch = watch(scene)?;
    scene.add("--port-down")?;
    hears(&mut watch, "IBV_EVENT_PORT_ERR (10), port 1")?;
    said(&scene.alone(&["ibv_devinfo"])?, "PORT_DOWN (1)")?;
    let ends = scene.run("ibv_rc_pingpong -g 0 -n 10")?;
    let words = "transport retry counter exceeded (12)";
    said(&ends.client, words).or_else(|_| said(&ends.server, words))?;

    scene.clear()?;
    hears(&mut watch, "IBV_EVENT_PORT_ACTIVE (9), port 1")?;
    said(&scene.alone(&["ibv_devinfo"])?, "PORT_ACTIVE (4)")?;
    scene.run("ibv_rc_pingpong -g 0 -n 10")?.clean()?;
    watch.kill();

    // By itself when its time is over.
    let mut again = self::watch(scene)?;
    scene.add("--port-down --for 300ms")?;
    hears(&mut again, "IBV_EVENT_PORT_ERR (10), port 1")?;
    hears(&mut again, "IBV_EVENT_PORT_ACTIVE (9), port 1")?;
    again.kill();
    Ok(())
}

/// An entry of the GID table goes, and comes back to its place.
pub(super) fn gid(scene: &Scene<'_>) -> Ending {
    let shown = |scene: &Scene<'_>| -> Result<bool, Stop> {
        let info = scene.alone(&["ibv_devinfo", "-v"])?;
        Ok(info.out.contains("GID[  0]"))
    };
    let mut watch = watch(scene)?;
    if !shown(scene)? {
        return Err(Stop::fail("there is no GID 0"));
    }
    scene.add("--gid-remove 0")?;
    hears(&mut watch, "IBV_EVENT_GID_CHANGE (18), port 1")?;
    if shown(scene)? {
        return Err(Stop::fail("GID 0 is still there"));
    }
    scene.clear()?;
    watch.kill();
    if !shown(scene)? {
        return Err(Stop::fail("GID 0 does not come back"));
    }
    scene.run("ibv_rc_pingpong -g 0 -n 10")?.clean()
}

/// rping's two ends, as far as they come.
fn rping(scene: &Scene<'_>, count: &str) -> Result<[Running; 2], Stop> {
    let host = scene.server();
    let port = scene.port.to_string();
    let mut server = host.run("stdbuf");
    server.args([
        "-oL",
        "rping",
        "-s",
        "-a",
        &host.address,
        "-p",
        &port,
        "-C",
        count,
    ]);
    let server = process::spawn(server, scene.dir(), "rping-server")?;
    let mut wait = host.ferroce();
    wait.args(["wait", &port]);
    let waited = process::run(wait, scene.dir(), "wait", LIMIT)?;
    if !waited.success() {
        return Err(Stop::with("rping does not listen", &[&waited]));
    }

    let mut client = host.run("stdbuf");
    client.args([
        "-oL",
        "rping",
        "-c",
        "-v",
        "-a",
        &host.address,
        "-p",
        &port,
        "-C",
        count,
    ]);
    let client = process::spawn(client, scene.dir(), "rping-client")?;
    Ok([server, client])
}

/// A request for a connection is refused with the reason that was given, and the next is not.
pub(super) fn refused(scene: &Scene<'_>) -> Ending {
    scene.add("--cm-reject 28 --count 1")?;
    let [server, client] = rping(scene, "3")?;
    let client = client.finish(LIMIT);
    server.kill();
    said(&client, "RDMA_CM_EVENT_REJECTED, error 28")?;
    if scene.hits()? != 1 {
        return Err(Stop::fail("it has not hit once"));
    }

    let [server, client] = rping(scene, "3")?;
    let client = client.finish(LIMIT);
    server.finish_after(&client, LIMIT);
    match client.success() {
        true => Ok(()),
        false => Err(Stop::with("the next one is refused, too", &[&client])),
    }
}

/// rping's two ends, which end well; how long the client took.
fn pings(scene: &Scene<'_>) -> Result<Duration, Stop> {
    let [server, client] = rping(scene, "3")?;
    let client = client.finish(LIMIT);
    server.finish_after(&client, LIMIT);
    match client.success() {
        true => Ok(client.elapsed),
        false => Err(Stop::with("rping does not connect", &[&client])),
    }
}

/// Messages of connection management that are lost are sent again: a REQ, one that comes, the REP
/// that answers it, and what ends a connection.
pub(super) fn lost_messages(scene: &Scene<'_>) -> Ending {
    for (faults, hits) in [
        (&["--loss 100% --qp 1 --match cm=REQ --count 1"][..], 1),
        (
            &[
                "--loss 100% --qp 1 --in --match cm=REQ --count 1",
                "--drop cm=REP --qp 1 --count 1",
            ],
            2,
        ),
        (&["--drop cm=DREQ --qp 1 --count 1"], 1),
    ] {
        for fault in faults {
            scene.add(fault)?;
        }
        pings(scene)?;
        let hit = scene.hits()?;
        scene.clear()?;
        if hit < hits {
            return Err(Stop::fail(format!("{faults:?}: {hit} hits")));
        }
    }
    Ok(())
}

/// Messages that come late, twice or in another order make a connection all the same.
pub(super) fn late_messages(scene: &Scene<'_>) -> Ending {
    let late = Duration::from_millis(400);
    scene.add("--delay 400ms --qp 1 --match cm=REP")?;
    let took = pings(scene)?;
    if took < late {
        return Err(Stop::fail(format!("connected and done in {took:?}")));
    }
    scene.clear()?;
    for fault in [
        "--duplicate --qp 1",
        "--reorder --qp 1 --in",
        "--delay 50ms±40ms --qp 1 --in",
    ] {
        scene.add(fault)?;
        pings(scene)?;
        if scene.hits()? == 0 {
            return Err(Stop::fail(format!("{fault} does not hit")));
        }
        scene.clear()?;
    }

    // Without `--qp 1` messages are left alone, which have so many bytes.
    scene.add("--loss 100% --match payload=256")?;
    pings(scene)?;
    match scene.hits()? {
        0 => Ok(()),
        hits => Err(Stop::fail(format!("{hits} messages were hit"))),
    }
}

/// Both ends of a connection hear that it is over.
pub(super) fn ended(scene: &Scene<'_>) -> Ending {
    let [server, mut client] = rping(scene, "1000000")?;
    if !client.wait_until(LIMIT, |client| client.output().contains("rdma-ping-20:")) {
        return Err(Stop::with("rping does not run", &[&client.kill()]));
    }
    scene.add("--disconnect --program rping")?;
    let (client, server) = (client.finish(LIMIT), server.finish(Duration::from_secs(20)));
    said(&client, "DISCONNECT EVENT").or_else(|_| said(&server, "DISCONNECT EVENT"))?;
    let list = scene.list(scene.server())?;
    match list.first().map(|one| (&one["over"], one["hits"].as_u64())) {
        Some((over, Some(1..))) if *over == true => Ok(()),
        _ => Err(Stop::fail(format!("the fault is {list:?}"))),
    }
}
