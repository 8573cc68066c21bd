//! Group `applications`: what people run over RDMA, from the distribution and unmodified: UCX, MPI, libfabric, programs over rsockets,
//! storage, programs in other languages, debuggers.
//!
//! Each is judged by its result, and where it could take another way (TCP, shared memory) by the device's counters as well. Where
//! nothing is named, one case of each family is run, but none in other languages, which take building; named, all of them. What does
//! not work, and whose cause that is, is in `docs/applications.md`.

mod iser;
mod languages;
mod libfabric;
mod libraries;
mod migration;
mod mpi;
mod openib;
mod rsockets;
mod storage;
mod tools;
mod ucx;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::case::{Case, Ending, Stop};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::host::Host;
use crate::lab::{Place, Site};
use crate::process::{self, Finished};

/// How long one program may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Through memory, over sockets, between two hosts; both IP versions.
const PLACES: [Place; 5] = [
    Place::OneDaemon,
    Place::Sockets,
    Place::Veth(1500),
    Place::Ipv6,
    Place::VethIpv6(1500),
];

/// What is run of the group when no group is named.
const SHORT: &[&str] = &[
    "applications/one-daemon/ucx_info",
    "applications/one-daemon/ucx_perftest over rc_v, 65536 bytes",
    "applications/one-daemon/fi_pingpong -p verbs -e msg",
    "applications/one-daemon/curl over rsockets",
    "applications/one-daemon/fio, verb=write",
    "applications/one-daemon/tgt and libiscsi over iSER",
    "applications/one-daemon/QEMU migrates over rdma:",
    "applications/one-daemon/librpma",
    "applications/one-daemon/gdb",
    "applications/veth-1500/Open MPI, UCX, 2 ranks",
    "applications/veth-1500/MPICH, 2 ranks",
    "applications/veth-1500/fi_pingpong -p verbs;ofi_rxm -e rdm",
    "applications/fabric/Open MPI, btl openib, 4 ranks",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        cases.extend(ucx::cases(place));
        cases.extend(libfabric::cases(place));
        cases.extend(mpi::cases(place));
        cases.extend(rsockets::cases(place));
        cases.extend(storage::cases(place));
        cases.extend(iser::cases(place));
        cases.extend(migration::cases(place));
        cases.extend(languages::cases(place));
        cases.extend(libraries::cases(place));
    }
    cases.extend(openib::cases());
    cases.extend(tools::cases());
    cases
}

/// Whether a case is run: where no group is named, the few of [`SHORT`].
pub(super) fn belongs(filters: &[String], name: &str) -> bool {
    let ours = name.starts_with("applications/");
    !ours || !filters.is_empty() || SHORT.contains(&name)
}

fn name(place: Place, what: &str) -> String {
    format!("applications/{}/{what}", place.name())
}

/// A program with words, run over ferroce on a host.
fn command(host: &Host, program: &str, words: &[impl AsRef<str>]) -> Command {
    let mut command = host.run(program);
    command.args(words.iter().map(AsRef::as_ref));
    command
}

/// A program of ours that serves at a site and asks there, each end told by its words: how asker and server ended.
fn serve_and_ask(site: &Site, program: &str, port: u16, dir: &Path) -> Result<[Finished; 2], Stop> {
    let (address, port_word) = (site.server().address.as_str(), port.to_string());
    let server = command(site.server(), program, &["serve", address, &port_word]);
    let mut server = process::spawn(server, dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let client = command(site.client(), program, &["ask", address, &port_word]);
    let client = process::run(client, dir, "client", LIMIT)?;
    let server = server.finish_after(&client, Duration::from_secs(30));
    expect_success(&[&client, &server])?;
    Ok([client, server])
}

/// A failure unless the program ended well.
fn expect_success(ends: &[&Finished]) -> Ending {
    match ends.iter().find(|end| !end.success()) {
        None => Ok(()),
        Some(end) => Err(Stop::with(format!("{}: {}", end.line, end.ending()), ends)),
    }
}

/// What has gone through a site's devices.
struct Meter<'a> {
    site: &'a Site,
    bytes: u64,
}

impl<'a> Meter<'a> {
    /// Begins to count.
    fn start(site: &'a Site) -> Result<Meter<'a>, Stop> {
        let bytes = sent(site)?;
        Ok(Meter { site, bytes })
    }

    /// A failure unless at least so many bytes have been sent since the start: then it took another way.
    fn expect(&self, bytes: u64, ends: &[&Finished]) -> Ending {
        let sent = sent(self.site)? - self.bytes;
        if sent >= bytes {
            return Ok(());
        }
        let what = format!("{sent} bytes went through the device, not {bytes} or more");
        Err(Stop::with(what, ends))
    }
}

/// Bytes that the devices of a site have sent.
fn sent(site: &Site) -> Result<u64, Stop> {
    let mut bytes = counter(site.client(), "sent_bytes")?;
    if let Some(other) = site.other() {
        bytes += counter(other, "sent_bytes")?;
    }
    Ok(bytes)
}

fn counter(host: &Host, name: &str) -> Result<u64, Stop> {
    let status = host.status()?;
    let counters = status["counters"].as_array();
    counters
        .and_then(|all| all.iter().find(|counter| counter[0] == name))
        .and_then(|counter| counter[1].as_u64())
        .ok_or_else(|| Stop::fail(format!("ferroce status has no {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_part_is_a_part_of_the_whole() {
        let names: Vec<_> = cases().into_iter().map(|case| case.name).collect();
        for short in SHORT {
            assert!(names.iter().any(|name| name == short), "{short}");
        }
    }
}
