//! The conformance programs of the Extended Sockets library, which goes by any device: between the
//! two sides, and over one of them.

use std::path::Path;
use std::time::Duration;

use super::field::{Family, Field, Side};
use super::programs::{Ends, Program};
use super::setting::{FAMILIES, MTUS, SIDES, Setting};
use crate::build;
use crate::groups::{Mode, exs_in_mode, exs_performed, exs_results, exs_with_peer};
use crate::harness::case::Parts;
use crate::harness::process;

/// For all tests of a program, in a guest that may be emulated.
const LIMIT: Duration = Duration::from_secs(400);
/// For one of them.
const SECONDS: &str = "60";

/// Every program in both modes, in both roles, and over rdma_rxe alone. The modes take turns with
/// the families and the link's MTUs.
pub(super) fn plan() -> Vec<(Program, Setting)> {
    let mut runs = Vec::new();
    for (mode, mtu) in Mode::ALL.into_iter().zip(MTUS) {
        for (index, name) in exs_performed(mode).into_iter().enumerate() {
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

/// Runs a program on the client's side, with the other process of each test on the server's, or
/// with both on the server's.
pub(super) fn run(
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
    let address = side.address(setting.family);
    let mut command = exs_in_mode(field.command(side, &program), mode, address, port);
    command
        .env("EXS_TEST_SECONDS", SECONDS)
        .env("EXS_TEST_LOG", dir.join("log"));
    if ends == Ends::Mixed {
        let peer = setting.server;
        let (prefix, address) = (field.prefix(peer), peer.address(setting.family));
        exs_with_peer(&mut command, &prefix, address);
    }

    exs_results(&process::run(command, dir, name, LIMIT)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_run_between_the_two_and_over_rxe_alone() {
        let runs = plan();
        for mode in Mode::ALL {
            for name in exs_performed(mode) {
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
}
