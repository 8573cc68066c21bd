//! Group `cm`, continued: cases that are not a server and a client of one program.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::groups::cm::{LIMIT, LISTEN_LIMIT, TCP, judge, stock, wait_for_listener};
use crate::harness::case::expect;
use crate::harness::case::{Ending, Parts, Stop};
use crate::harness::process;
use crate::harness::unittest::{self, Verdict};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::programs::suite::Suite;

/// Datagrams to a multicast group, from one member to another. `option` is how mckey is told of the
/// group: `-m`, an IP address, or `-M`, a GID, which rdma_cm is given in an address of `AF_IB`.
pub(crate) fn multicast(lab: &mut Lab, place: Place, option: &str) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let (receiver, sender) = (site.server(), site.client());
    let group = match (place.is_ipv6(), option) {
        (false, _) => IpAddr::from(Ipv4Addr::new(239, 77, 1, 1)),
        (true, "-m") => IpAddr::from(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0x77, 1)),
        (true, _) => IpAddr::from(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0x77, 2)),
    };

    let member = |host: &Host| {
        let mut command = host.run("mckey");
        command.args([option, &group.to_string(), "-b", &host.address]);
        command.args(["-C", "20"]);
        command
    };
    let mut server = process::spawn(member(receiver), &dir, "receiver")?;

    // Only a member gets anything.
    if !server.wait_until(LISTEN_LIMIT, |running| joined(running.id(), group)) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the receiver does not join", &[&server]));
    }

    let mut command = member(sender);
    command.arg("-s");
    let client = process::run(command, &dir, "sender", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    judge(
        &client,
        &server,
        &stock("mckey", "mckey", "mckey", "return status 0"),
    )?;

    // It ends when as many have arrived as were sent.
    expect(server.out.contains("data transfers complete"), || {
        "the receiver has not got what was sent".to_owned()
    })
}

/// Whether a process's network namespace is a member of a group.
fn joined(process: u32, group: IpAddr) -> bool {
    let (table, wanted) = match group {
        IpAddr::V4(group) => (
            "igmp",
            format!("{:08X}", u32::from_le_bytes(group.octets())),
        ),
        IpAddr::V6(group) => ("igmp6", format!("{:032x}", group.to_bits())),
    };
    std::fs::read_to_string(format!("/proc/{process}/net/{table}"))
        .is_ok_and(|table| table.contains(&wanted))
}

/// A file to the other side.
pub(crate) fn copy(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(place)?;
    let (from, to) = (dir.join("from"), dir.join("to"));
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(&from, &content).map_err(anyhow::Error::from)?;
    let mut command = site.server().run("rcopy");
    command.args(["-p", &port.to_string()]);
    let mut server = process::spawn(command, &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let mut command = site.client().run("rcopy");
    let target = format!("{}:{}", site.server().address, to.display());
    command
        .arg(&from)
        .arg(target)
        .args(["-p", &port.to_string()]);

    let client = process::run(command, &dir, "client", LIMIT)?;
    let server = server.kill();
    if !client.success() {
        return Err(Stop::with(client.ending(), &[&client, &server]));
    }

    let arrived = std::fs::read(&to).unwrap_or_default();
    expect(arrived == content, || {
        "what arrived is not what was sent".to_owned()
    })
}

/// rdma-core's own tests of the connection manager, none of which may be skipped.
pub(crate) fn suite(lab: &mut Lab) -> Parts {
    let suite = Suite::unpack_connections()?;
    let dir = lab.case_dir()?;
    let host = lab.site(Place::OneDaemon)?.client();
    let mut command = host.run("/usr/bin/python3");
    command
        .args(["run_tests.py", "--dev", "ferroce0", "-v"])
        .current_dir(suite.tests());
    let finished = process::run(command, &dir, "suite", Duration::from_secs(300))?;
    let outcomes = unittest::read(&finished.err)
        .map_err(|what| Stop::with(format!("{}; {what}", finished.ending()), &[&finished]))?;
    let judge = |verdict| match verdict {
        Verdict::Passed => Ok(()),
        Verdict::Skipped(why) => Err(Stop::fail(format!("skipped: {why}"))),
        Verdict::Failed(why) => Err(Stop::fail(why)),
    };
    let endings = outcomes
        .into_iter()
        .map(|outcome| (outcome.name, judge(outcome.verdict)));
    Ok(endings.collect())
}

/// Where nobody listens the answer is at once that one, and where nobody is it is that none came.
pub(crate) fn nobody(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(place)?;
    let mut command = site.client().run("rping");
    command.args(["-c", "-a", &site.server().address, "-p", &port.to_string()]);
    let finished = process::run(command, &dir, "rping", LIMIT)?;
    let text = format!("{}{}", finished.out, finished.err);

    // IBTA's reason 8: there is no such service.
    if finished.success() || !text.contains("RDMA_CM_EVENT_REJECTED, error 8") {
        return Err(Stop::with(
            "not rejected for want of a listener",
            &[&finished],
        ));
    }

    expect(finished.elapsed < Duration::from_secs(10), || {
        format!("it took {:?} to be told", finished.elapsed)
    })
}
