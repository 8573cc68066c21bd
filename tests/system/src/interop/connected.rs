//! Programs that connect through rdma_cm: those of librdmacm, perftest's when told to, and members
//! of a multicast group.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::differs;
use super::field::{Field, Side};
use super::patience::{LIMIT, LISTEN_LIMIT, patience};
use super::setting::Setting;
use crate::groups::cm::{self, Stock};
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::programs::perftest::Ends;

/// Whether a side listens at a port of rdma_cm.
pub(super) fn listens(field: &Field, side: Side, space: u64, port: u16) -> bool {
    match side {
        Side::Ferroce => cm::listens(&field.ferroce, space, port),
        Side::Rxe => {
            let mut command = field.plain(side, "rdma");
            command.args(["resource", "show", "cm_id"]);
            let listed = command.output().map(|output| output.stdout);
            let wanted = format!(":{port} ");
            String::from_utf8_lossy(&listed.unwrap_or_default())
                .lines()
                .any(|line| line.contains("LISTEN") && line.contains(&wanted))
        }
    }
}

/// A server that listens.
pub(super) fn serve(
    field: &Field,
    side: Side,
    words: &[String],
    space: u64,
    port: u16,
    dir: &Path,
) -> Result<Running, Stop> {
    let mut command = field.command(side, &words[0]);
    command.args(&words[1..]);
    let mut server = process::spawn(command, dir, "server")?;
    let deadline = Instant::now() + LISTEN_LIMIT;
    while !listens(field, side, space, port) {
        if Instant::now() > deadline || server.ended_within(Duration::from_millis(20)) {
            let server = server.finish(Duration::ZERO);
            return Err(Stop::with("the server does not come to listen", &[&server]));
        }
    }
    Ok(server)
}

/// Server and client of rdma_cm.
///
/// A client that goes after `rdma_disconnect` leaves its DREQ to Linux, which sends it this once.
/// Over a bad network it may be lost, and the server waits for good: then all is done again.
pub(super) fn exchange(
    field: &Field,
    setting: &Setting,
    stock: &Stock,
    port: u16,
    dir: &Path,
) -> Ending {
    let goes_unheard = setting.bad && setting.server == Side::Ferroce && !stock.stays;
    // A kind of which none came is not shown.
    let heard = || field.ferroce_counter("cm_rx_msgs/dreq").unwrap_or(0);
    let before = heard();
    let (client, server) = ends(field, setting, stock, port, dir)?;
    let waits = client.success() && server.status.is_none();
    let (client, server) = match goes_unheard && waits && heard() == before {
        true => {
            println!("no DREQ of {} came: done again", stock.client);
            ends(field, setting, stock, port, dir)?
        }
        false => (client, server),
    };
    cm::judge(&client, &server, stock)
}

/// How client and server ended.
fn ends(
    field: &Field,
    setting: &Setting,
    stock: &Stock,
    port: u16,
    dir: &Path,
) -> Result<(Finished, Finished), Stop> {
    // udaddy cannot be told.
    let port = match stock.server.contains("PORT") {
        true => port,
        false => cm::USUAL_PORT,
    };
    let line = |line| cm::words(line, setting.server.address(setting.family), port);
    let server = serve(
        field,
        setting.server,
        &line(stock.server),
        stock.space,
        port,
        dir,
    )?;

    let words = line(stock.client);
    let mut command = field.command(setting.server.other(), &words[0]);
    command.args(&words[1..]);
    let client = process::run(command, dir, "client", LIMIT)?;
    let server = match stock.stays {
        true => server.kill(),
        false => server.finish(patience(&client)),
    };
    Ok((client, server))
}

/// perftest through rdma_cm.
pub(super) fn connected(
    field: &Field,
    setting: &Setting,
    line: &str,
    port: u16,
    dir: &Path,
) -> Ending {
    if setting.bad && setting.server == Side::Rxe {
        return Err(Stop::Skip(differs::asks_too_soon().to_owned()));
    }

    let words = |side: Side| -> Vec<String> {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words.extend(["-R", "-F", "-d", side.device(), "-p"].map(str::to_owned));
        words.push(port.to_string());
        words
    };

    let server = serve(
        field,
        setting.server,
        &words(setting.server),
        cm::TCP,
        port,
        dir,
    )?;

    let side = setting.server.other();
    let words = words(side);
    let mut command = field.command(side, &words[0]);
    command.args(&words[1..]);
    command.arg(setting.server.address(setting.family));
    let client = process::run(command, dir, "client", LIMIT)?;
    let ends = Ends {
        server: server.finish(patience(&client)),
        client,
    };
    ends.clean()?;
    ends.table(1).map(|_| ())
}

/// Datagrams from one member of a group to another, which awaits 10 of `count`.
pub(super) fn multicast(field: &Field, setting: &Setting, count: u32, dir: &Path) -> Ending {
    const GROUP: std::net::Ipv4Addr = std::net::Ipv4Addr::new(239, 78, 1, 1);

    let command = |side: Side, count: u32| {
        let mut command = field.command(side, "mckey");
        command.args(["-m", &GROUP.to_string(), "-C", &count.to_string()]);
        command.args(["-b", side.address(setting.family)]);
        command
    };
    let mut server = process::spawn(command(setting.server, 10), dir, "receiver")?;
    let joined = |running: &Running| {
        let table = fs::read_to_string(format!("/proc/{}/net/igmp", running.id()));
        let wanted = format!("{:08X}", u32::from_le_bytes(GROUP.octets()));
        table.is_ok_and(|table| table.contains(&wanted))
    };

    if !server.wait_until(LISTEN_LIMIT, joined) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the receiver does not join", &[&server]));
    }

    let mut sender = command(setting.server.other(), count);
    sender.arg("-s");
    let client = process::run(sender, dir, "sender", LIMIT)?;
    let server = server.finish(patience(&client));
    let stock = cm::stock("mckey", "mckey", "mckey", "return status 0");
    cm::judge(&client, &server, &stock)
}
