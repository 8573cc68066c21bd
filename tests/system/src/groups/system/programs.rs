//! Stock programs of users who have logged in, with the device that is the machine's: libibverbs,
//! librdmacm, completion channels, and files of `/dev/infiniband` and of sysfs.

use super::{LIMIT, SYSFS, Site, said};
use crate::harness::case::{Ending, Stop, expect};
use crate::harness::process::{self, Finished};
use crate::lab::host;
use crate::lab::machine::MEMBERS;

/// One of the things that are tried.
pub(super) type Part = fn(&Site) -> Ending;

pub(super) fn parts() -> Vec<(&'static str, Part)> {
    vec![
        ("status", status),
        ("ibv_devinfo", devinfo),
        ("ibv_devinfo without a login", without_login),
        ("ib_write_bw", |site| {
            perftest(site, "ib_write_bw -F -n 1000")
        }),
        ("ib_write_bw -R", |site| {
            perftest(site, "ib_write_bw -R -F -n 1000")
        }),
        ("ib_send_lat -e", |site| {
            perftest(site, "ib_send_lat -e -F -n 200")
        }),
        ("ibv_rc_pingpong -e", |site| {
            perftest(site, "ibv_rc_pingpong -e -g 0 -n 200")
        }),
        ("rping", rping),
        ("below ferroce run", below_run),
    ]
}

fn status(site: &Site) -> Ending {
    let status = site.login(
        "status",
        MEMBERS[0],
        "/opt/ferroce/bin/ferroce system status",
    )?;
    said(&status, &["members of rdma", "is up at 127.0.0.1"])
}

fn devinfo(site: &Site) -> Ending {
    let shown = site.login("devinfo", MEMBERS[0], "ibv_devinfo -v")?;
    said(&shown, &["ferroce0", "PORT_ACTIVE"])
}

/// Nothing in the environment but the one variable.
fn without_login(site: &Site) -> Ending {
    let user = ["setpriv", "--reuid=alice", "--regid=alice", "--init-groups"];
    let line = [&user[..], &["env", "-i", SYSFS, "/usr/bin/ibv_devinfo"]].concat();
    said(&site.root("bare", &line)?, &["PORT_ACTIVE"])
}

/// A program of both ends, of two users.
fn pair(site: &Site, name: &str, [server, client]: [&str; 2], by: By) -> Result<Finished, Stop> {
    let command = site.machine.login(MEMBERS[0], server);
    let mut server = process::spawn(command, &site.dir, &format!("{name}-server"))?;
    let listens = match by {
        By::Tcp(port) => server.listens(port, LIMIT),
        By::RdmaCm(port) => server.wait_until(LIMIT, |_| serves(site, port)),
    };
    if !listens {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let client = site.login(&format!("{name}-client"), MEMBERS[1], client)?;
    let server = server.finish_after(&client, LIMIT);
    match client.success() && server.success() {
        true => Ok(client),
        false => Err(Stop::with("does not end well", &[&client, &server])),
    }
}

/// By what the client finds the server, and the server's port.
#[derive(Clone, Copy)]
enum By {
    Tcp(u16),
    RdmaCm(u16),
}

fn perftest(site: &Site, line: &str) -> Ending {
    let name: String = line.split(' ').collect();
    let by = match line.contains("-R") {
        true => By::RdmaCm(18_601),
        false => By::Tcp(18_601),
    };
    let server = format!("{line} -p 18601");
    let client = format!("{server} 127.0.0.1");
    pair(site, &name, [&server, &client], by).map(drop)
}

/// Whether the device's connection manager has a listener at a port of `RDMA_PS_TCP`.
fn serves(site: &Site, port: u16) -> bool {
    let status = site.daemon("serves").unwrap_or_default();
    host::serves(&status, host::TCP, port)
}

/// Connections by IP address, events of them, and data that is looked at.
fn rping(site: &Site) -> Ending {
    let server = "rping -s -a 127.0.0.1 -p 18602 -C 10 -v";
    let client = "rping -c -a 127.0.0.1 -p 18602 -C 10 -v";
    let client = pair(site, "rping", [server, client], By::RdmaCm(18_602))?;
    let lines = client.out.matches("ping data: rdma-ping-").count();
    match lines {
        10 => Ok(()),
        _ => Err(Stop::with("has not come back ten times", &[&client])),
    }
}

/// A user's own device is what his programs see below `ferroce run`, beside the machine's.
fn below_run(site: &Site) -> Ending {
    let own = "/opt/ferroce/bin/ferroce --runtime-dir /tmp/own-of-alice";
    let line = format!(
        "sh -c '{own} up --name own0 --addr 127.0.0.9 && {own} run -- ibv_devinfo; {own} down'"
    );
    let shown = site.login("own", MEMBERS[0], &line)?;
    said(&shown, &["own0", "PORT_ACTIVE"])?;
    expect(!shown.out.contains("ferroce0"), || {
        format!("the machine's device is seen, too:\n{}", shown.out)
    })
}
