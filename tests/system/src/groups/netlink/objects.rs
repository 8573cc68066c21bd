//! `rdma resource`: the objects of programs that run, with their true numbers, sizes and owners,
//! and none when these are gone.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{LIMIT, is, listed, only};
use crate::groups::cm;
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

/// Every kind that there is.
const KINDS: [&str; 7] = ["pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"];

/// A pingpong that waits for its other end: one object of each kind that it uses, and these belong
/// together.
pub(super) fn of_a_program(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    nothing_left(host, &dir)?;
    let pingpong = || {
        let mut command = host.run("ibv_srq_pingpong");
        // Two queue pairs, a region of 8000 bytes, 100 receives; a completion queue for these and a
        // send of each.
        let port = port.to_string();
        command.args(["-g", "0", "-p", &port, "-q", "2", "-s", "8000", "-r", "100"]);
        command
    };

    let mut server = process::spawn(pingpong(), &dir, "server")?;
    if !server.listens(port, LIMIT) {
        return Err(Stop::with("no server", &[&server.kill()]));
    }

    counted(host, &dir, [1, 1, 2, 0, 1, 1, 1])?;
    let pid = server.id();
    let numbers = those_of_a_pingpong(host, &dir, pid)?;
    let mut client = pingpong();
    client.arg(&host.address);
    let client = process::run(client, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    let both = [&client, &server];
    if !client.success() || !server.success() {
        return Err(Stop::with("the pingpong fails", &both));
    }

    // The numbers that the programs tell each other.
    for number in numbers {
        let qpn = format!("QPN 0x{number:06x}");
        if !server.out.contains(&qpn) || !client.out.contains(&qpn) {
            return Err(Stop::with(
                format!("listed as {qpn}, which it is not"),
                &both,
            ));
        }
    }

    nothing_left(host, &dir)
}

/// Looks at all objects of the process; the numbers of its queue pairs.
fn those_of_a_pingpong(host: &Host, dir: &Path, pid: u32) -> Result<Vec<u64>, Stop> {
    let owner = pid.to_string();
    let of = |kind| -> Result<Vec<Value>, Stop> {
        let objects = listed(host, dir, &["resource", "show", kind, "pid", &owner])?;
        for object in &objects {
            is(object, "ifname", "ferroce0")?;
            is(object, "pid", pid)?;
            is(object, "comm", "ibv_srq_pingpon")?;
        }
        Ok(objects)
    };

    let [contexts, domains, queues, regions, shared] =
        ["ctx", "pd", "cq", "mr", "srq"].map(|kind| of(kind).and_then(|all| only(&all).cloned()));
    let (context, domain, queue, region, shared) =
        (contexts?, domains?, queues?, regions?, shared?);

    is(&domain, "ctxn", context["ctxn"].clone())?;

    // The region, the shared receive queue and two queue pairs are in it.
    is(&domain, "users", 4)?;
    is(&queue, "ctxn", context["ctxn"].clone())?;
    is(&queue, "cqe", 102)?;
    is(&queue, "users", 4)?;
    is(&region, "mrlen", 8000)?;
    is(&region, "pdn", domain["pdn"].clone())?;
    keys_are_for_administrators(&region)?;
    is(&shared, "type", "BASIC")?;
    is(&shared, "pdn", domain["pdn"].clone())?;
    let pairs = of("qp")?;
    for pair in &pairs {
        is(pair, "port", 1)?;
        is(pair, "type", "RC")?;
        is(pair, "state", "INIT")?;
        is(pair, "rqpn", 0)?;
        is(pair, "pdn", domain["pdn"].clone())?;
    }

    numbers(&pairs)
}

/// The kernel shows keys to those alone who have `CAP_NET_ADMIN`.
fn keys_are_for_administrators(region: &Value) -> Ending {
    let root = rustix::process::geteuid().is_root();
    match ["lkey", "rkey"]
        .iter()
        .all(|key| region.get(key).is_some() == root)
    {
        true => Ok(()),
        false => Err(Stop::fail(format!("keys, to root alone: {region}"))),
    }
}

fn numbers(pairs: &[Value]) -> Result<Vec<u64>, Stop> {
    let numbers = pairs.iter().map(|pair| {
        let number = pair.get("lqpn").and_then(Value::as_u64);
        number.ok_or_else(|| Stop::fail(format!("no lqpn in {pair}")))
    });
    numbers.collect()
}

/// Two connected programs, that of the server with the identifier that listens.
pub(super) fn of_a_connection(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    nothing_left(host, &dir)?;

    // Without a number of rounds these go on until they are ended.
    let rping = |end: &str| {
        let mut command = host.run("rping");
        command.args([end, "-a", &host.address, "-p", &port.to_string()]);
        command
    };
    let mut server = process::spawn(rping("-s"), &dir, "server")?;
    if !cm::wait_for_listener(&mut server, host, cm::TCP, port) {
        return Err(Stop::with("no server", &[&server.kill()]));
    }

    let mut client = process::spawn(rping("-c"), &dir, "client")?;
    let connected = client.wait_until(LIMIT, |_| {
        states(host, &dir, "qp").is_ok_and(|states| states == ["RTS", "RTS"])
            && states(host, &dir, "cm_id")
                .is_ok_and(|states| states == ["CONNECT", "CONNECT", "LISTEN"])
    });

    let seen = match connected {
        true => a_connection(host, &dir, port, &server, &client),
        false => Err(Stop::fail("they do not connect")),
    };

    let ended = [client.kill(), server.kill()];
    seen.map_err(|stop| match stop {
        Stop::Fail(failure) => Stop::with(failure.what, &ended.each_ref()),
        skip => skip,
    })?;

    nothing_left(host, &dir)
}

/// The states of all objects of a kind, in order.
fn states(host: &Host, dir: &Path, kind: &str) -> Result<Vec<String>, Stop> {
    let objects = listed(host, dir, &["resource", "show", kind])?;
    let state = |object: &Value| object["state"].as_str().unwrap_or_default().to_owned();
    let mut states: Vec<_> = objects.iter().map(state).collect();
    states.sort();
    Ok(states)
}

/// Each end's queue pair and identifier know each other, and the other end's.
fn a_connection(host: &Host, dir: &Path, port: u16, server: &Running, client: &Running) -> Ending {
    let one = |kind: &str, state: &str, of: &Running| -> Result<Value, Stop> {
        let owner = of.id().to_string();
        let line = ["resource", "show", kind, "state", state, "pid", &owner];
        let object = only(&listed(host, dir, &line)?)?.clone();
        is(&object, "comm", "rping")?;
        Ok(object)
    };

    let here = format!("{}:{port}", host.address);
    let listening = one("cm_id", "LISTEN", server)?;
    is(&listening, "ps", "TCP")?;
    is(&listening, "src-addr", here.clone())?;
    if listening.get("lqpn").is_some() || listening.get("dst-addr").is_some() {
        return Err(Stop::fail(format!("more than an address: {listening}")));
    }

    let [active, passive] = [client, server].map(|of| one("cm_id", "CONNECT", of));
    let (active, passive) = (active?, passive?);
    is(&active, "dst-addr", here.clone())?;
    is(&passive, "src-addr", here)?;
    is(&passive, "dst-addr", active["src-addr"].clone())?;
    let [first, second] = [client, server].map(|of| one("qp", "RTS", of));
    let (first, second) = (first?, second?);
    for (pair, identifier, other) in [(&first, &active, &second), (&second, &passive, &first)] {
        is(identifier, "qp-type", "RC")?;
        is(identifier, "lqpn", pair["lqpn"].clone())?;
        is(pair, "type", "RC")?;
        is(pair, "rqpn", other["lqpn"].clone())?;
    }

    Ok(())
}

/// How many objects there are, in the order of [`KINDS`].
fn summary(host: &Host, dir: &Path) -> Result<[u64; 7], Stop> {
    let devices = listed(host, dir, &["resource", "show"])?;
    let device = only(&devices)?;
    is(device, "ifname", "ferroce0")?;
    let counts = KINDS.map(|kind| device.get(kind).and_then(Value::as_u64));
    match counts.iter().all(Option::is_some) {
        true => Ok(counts.map(Option::unwrap_or_default)),
        false => Err(Stop::fail(format!("not all kinds: {device}"))),
    }
}

fn counted(host: &Host, dir: &Path, wanted: [u64; 7]) -> Ending {
    match summary(host, dir)? {
        seen if seen == wanted => Ok(()),
        seen => Err(Stop::fail(format!("{seen:?} of {KINDS:?}, not {wanted:?}"))),
    }
}

/// Waits until the objects of programs that have ended are gone: the daemon hears of an end a
/// moment after it.
fn nothing_left(host: &Host, dir: &Path) -> Ending {
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = counted(host, dir, [0; 7]);
        if left.is_ok() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
