//! An application at a site: how it is started, how long it may take, and what has gone through the
//! devices meanwhile.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::groups::cm::{TCP, wait_for_listener};
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::host::Host;
use crate::lab::{Place, Site};

/// How long one program may take.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

pub(super) fn name(place: Place, what: &str) -> String {
    format!("applications/{}/{what}", place.name())
}

/// A program with words, run over ferroce on a host.
pub(super) fn command(host: &Host, program: &str, words: &[impl AsRef<str>]) -> Command {
    let mut command = host.run(program);
    command.args(words.iter().map(AsRef::as_ref));
    command
}

/// Bytes to be stored and compared, so many.
pub(super) fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 167 + at / 251) as u8).collect()
}

/// An address as it stands in front of a port.
pub(super) fn in_url(address: &str) -> String {
    match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    }
}

/// What a starter of ranks is told: settings of the environment, which are the words with a `=`,
/// and its own options.
pub(super) fn settings_and_options(words: &str) -> (Vec<(&str, &str)>, Vec<&str>) {
    let options = words.split(' ').filter(|word| !word.contains('='));
    let settings = words.split(' ').filter_map(|word| word.split_once('='));
    (settings.collect(), options.collect())
}

/// How the end that serves listens.
#[derive(Clone, Copy)]
pub(super) enum Listens {
    RdmaCm,
    Tcp,
}

/// A program of ours, with the words before its own, that serves at a site and asks there, each end
/// told by its words: how asker and server ended.
pub(super) fn serve_and_ask(
    site: &Site,
    program: &[&str],
    (port, listens): (u16, Listens),
    dir: &Path,
) -> Result<[Finished; 2], Stop> {
    let (address, port_word) = (site.server().address.as_str(), port.to_string());
    let [name, before @ ..] = program else {
        return Err(Stop::fail("no program"));
    };
    let end = |host: &Host, role: &str| {
        command(host, name, &[before, &[role, address, &port_word]].concat())
    };
    let server = end(site.server(), "serve");
    let mut server = process::spawn(server, dir, "server")?;
    let listening = match listens {
        Listens::RdmaCm => wait_for_listener(&mut server, site.server(), TCP, port),
        Listens::Tcp => server.listens(port, LIMIT),
    };
    if !listening {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let client = process::run(end(site.client(), "ask"), dir, "client", LIMIT)?;
    let server = server.finish_after(&client, Duration::from_secs(30));
    expect_success(&[&client, &server])?;
    Ok([client, server])
}

/// A failure unless the program ended well.
pub(super) fn expect_success(ends: &[&Finished]) -> Ending {
    match ends.iter().find(|end| !end.success()) {
        None => Ok(()),
        Some(end) => Err(Stop::with(format!("{}: {}", end.line, end.ending()), ends)),
    }
}

/// What has gone through a site's devices.
pub(super) struct Meter<'a> {
    site: &'a Site,
    bytes: u64,
}

impl<'a> Meter<'a> {
    /// Begins to count.
    pub(super) fn start(site: &'a Site) -> Result<Meter<'a>, Stop> {
        let bytes = sent(site)?;
        Ok(Meter { site, bytes })
    }

    /// A failure unless at least so many bytes have been sent since the start: then it took another
    /// way.
    pub(super) fn expect(&self, bytes: u64, ends: &[&Finished]) -> Ending {
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

pub(super) fn counter(host: &Host, name: &str) -> Result<u64, Stop> {
    let status = host.status()?;
    status["counters"][name]
        .as_u64()
        .ok_or_else(|| Stop::fail(format!("ferroce status has no {name}")))
}
