//! Tests of a C program of `tests/verbs` between the two sides.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::differs;
use super::field::{Field, Side};
use super::patience::LIMIT;
use super::programs::Choice;
use super::setting::Setting;
use crate::harness::case::{Ending, Parts, Stop};
use crate::harness::process;
use crate::programs::cprogram;

/// Runs tests of a C program: it runs on the client's side, and its second process on the server's.
pub(super) fn run(
    field: &Field,
    setting: &Setting,
    name: &str,
    choice: Choice,
    dir: &Path,
) -> Parts {
    // Compiled before the guest was started.
    let program = cprogram::compile(name)?;
    let side = setting.server.other();
    let place = |side: Side| -> Result<[(&str, String); 2], Stop> {
        let gid = field.gid_index(side, setting.family)?.to_string();
        Ok([
            ("VERBS_DEVICE", side.device().to_owned()),
            ("GID_INDEX", gid),
        ])
    };

    let mut peer = field.prefix(setting.server);
    peer.push("env".into());
    for (variable, value) in place(setting.server)? {
        peer.push(format!("{variable}={value}").into());
    }
    let command = |words: &[&str]| -> Result<Command, Stop> {
        let mut command = field.command(side, &program);
        command.args(words).envs(place(side)?);
        command.env("PEER_COMMAND", peer.join(OsStr::new("\n")));
        if setting.server == Side::Rxe {
            command.env("PEER_WITHOUT_EVENTS", "yes");
        }
        Ok(command)
    };

    let listed = process::run(command(&["--list"])?, dir, "list", LIMIT)?;
    let tests: Vec<&str> = match choice {
        Choice::Only(tests) => tests.to_vec(),
        Choice::All => listed.out.lines().collect(),
    };

    let mut endings: Vec<(String, Ending)> = Vec::new();
    for test in tests {
        if let Some(why) = differs::skipped(name, test, setting.server) {
            endings.push((test.to_owned(), Err(Stop::Skip(why.to_owned()))));
            continue;
        }
        let finished = process::run(command(&[test])?, dir, test, LIMIT)?;
        endings.extend(
            cprogram::endings(&finished)
                .into_iter()
                .map(|(_, ending)| (test.to_owned(), ending)),
        );
    }

    Ok(endings)
}
