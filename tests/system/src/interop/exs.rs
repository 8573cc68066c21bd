//! The conformance programs of the Extended Sockets library, which goes by any device: between the two sides, and over one of them.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::field::{Family, Field, Side};
use super::programs::{Ends, Program};
use super::setting::{FAMILIES, MTUS, SIDES, Setting};
use crate::build;
use crate::groups::{Mode, exs_endings, exs_is_performed};
use crate::harness::case::{Parts, Stop};
use crate::harness::process;

/// For all tests of a program, in a guest that may be emulated.
const LIMIT: Duration = Duration::from_secs(400);
/// For one of them.
const SECONDS: &str = "60";

/// All of them: what others stand on comes first.
const PROGRAMS: &[&str] = &[
    "exs_init",
    "exs_socket",
    "exs_bind",
    "exs_listen",
    "exs_connect",
    "exs_blocking_connect",
    "exs_accept",
    "exs_blocking_accept",
    "exs_mregister",
    "exs_mderegister",
    "exs_qcreate",
    "exs_qdelete",
    "exs_qdequeue",
    "exs_qstatus",
    "exs_qmodify",
    "exs_send",
    "exs_recv",
    "exs_sendfile",
    "exs_recvfile",
    "exs_blocking_send",
    "exs_blocking_recv",
    "exs_read",
    "exs_write",
    "exs_blocking_sendfile",
    "exs_blocking_recvfile",
    "exs_shutdown",
    "exs_close",
    "exs_blocking_close",
    "exs_fcntl",
    "exs_integration",
    "exs_mixed",
    "exs_threads",
    "exs_transfer",
    "exs_killed",
    "exs_crowd",
    "exs_figures",
];

/// Every program in both modes, in both roles, and over rdma_rxe alone. The modes take turns with the families and the link's MTUs.
pub fn plan() -> Vec<(Program, Setting)> {
    let mut runs = Vec::new();
    for (mode, mtu) in Mode::ALL.into_iter().zip(MTUS) {
        for (index, &name) in PROGRAMS.iter().enumerate() {
            if !exs_is_performed(name, mode) {
                continue;
            }
            // The figures ask for IPv4.
            let family = if name == "exs_figures" {
                Family::V4
            } else {
                FAMILIES[index % 2]
            };
            let setting = |server| Setting {
                server,
                family,
                mtu,
                bad: false,
            };
            for server in SIDES {
                runs.push((Program::Exs(name, mode, Ends::Mixed), setting(server)));
            }
            runs.push((Program::Exs(name, mode, Ends::Alone), setting(Side::Rxe)));
        }
    }
    runs
}

/// Runs a program on the client's side, with the other process of each test on the server's, or with both on the server's.
pub fn run(
    field: &Field,
    setting: &Setting,
    (name, mode, ends): (&str, Mode, Ends),
    port: u16,
    dir: &Path,
) -> Parts {
    // Built before the guest was started, which has no compiler to spare.
    let program = build::scratch("exs")?.join(format!("test_{name}"));
    let side = match ends {
        Ends::Mixed => setting.server.other(),
        Ends::Alone => setting.server,
    };
    let mut command = field.command(side, &program);
    command
        .args(mode.options())
        .args(["-a", side.address(setting.family)])
        .args(["-p", &port.to_string()])
        .env("EXS_TEST_SECONDS", SECONDS)
        .env("EXS_TEST_LOG", dir.join("log"));
    if ends == Ends::Mixed {
        let peer = setting.server;
        command
            .env("PEER_COMMAND", field.prefix(peer).join(OsStr::new("\n")))
            .env("EXS_TEST_PEER_ADDR", peer.address(setting.family));
    }
    let finished = process::run(command, dir, name, LIMIT)?;
    let endings = exs_endings(&finished);
    let failed = endings.iter().any(|(_, ending)| ending.is_err());
    if endings.is_empty() || finished.success() == failed {
        let what = format!("{} results, and {}", endings.len(), finished.ending());
        return Err(Stop::with(what, &[&finished]));
    }
    Ok(endings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_run_between_the_two_and_over_rxe_alone() {
        let runs = plan();
        for mode in Mode::ALL {
            for &name in PROGRAMS.iter().filter(|name| exs_is_performed(name, mode)) {
                let found = |ends, server| {
                    runs.iter().any(|(program, setting)| {
                        matches!(program, Program::Exs(of, how, where_) if (*of, *how, *where_) == (name, mode, ends))
                            && setting.server == server
                    })
                };
                assert!(
                    found(Ends::Mixed, Side::Rxe)
                        && found(Ends::Mixed, Side::Ferroce)
                        && found(Ends::Alone, Side::Rxe),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn none_is_left_out() {
        let all = crate::groups::exs_names();
        assert_eq!(all.len(), PROGRAMS.len());
        assert!(all.iter().all(|name| PROGRAMS.contains(&name.as_str())));
    }
}
