//! Tools for developers at work on such programs: gdb and Valgrind.

use super::running::{LIMIT, command, expect_success};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::groups::memcheck::clean;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::{Lab, Place};
use crate::programs::valgrind::{self, Leaks};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("applications/one-daemon/gdb", debugger),
        Case::new("applications/one-daemon/fi_info under Valgrind", memcheck),
        Case::new("applications/one-daemon/rping under Valgrind", rping),
    ]
}

/// Stops a program within libibverbs, walks the stack through it and lets it run on.
fn debugger(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let words = [
        "-batch",
        "-ex",
        "set breakpoint pending on",
        "-ex",
        "break ibv_open_device",
        "-ex",
        "run",
        "-ex",
        "backtrace",
        "-ex",
        "delete",
        "-ex",
        "continue",
        "--args",
        "ibv_devinfo",
    ];

    let ran = process::run(command(site.client(), "gdb", &words), &dir, "gdb", LIMIT)?;
    expect_success(&[&ran])?;

    // Without debug symbols the program's own frames have no names.
    for said in ["in ibv_open_device", "PORT_ACTIVE", "exited normally"] {
        if !ran.out.contains(said) {
            return Err(Stop::with(format!("no {said:?}"), &[&ran]));
        }
    }

    Ok(())
}

/// What libfabric asks of each device, without an invalid access.
fn memcheck(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let words = valgrind::command(&dir);
    let site = lab.site(Place::OneDaemon)?;
    let mut program = command(site.client(), &words[0], &words[1..]);
    program.args(["fi_info", "-p", "verbs"]);
    let ran = process::run(program, &dir, "fi_info", LIMIT)?;
    expect_success(&[&ran])?;
    clean(&dir, 1, Leaks::Allowed)
}

/// Both ends of a program that connects, sends, reads and writes, without an invalid access.
fn rping(lab: &mut Lab) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(Place::OneDaemon)?;
    let port_word = port.to_string();
    let end = |side: &str| {
        let words = valgrind::command(&dir);
        let mut program = command(site.client(), &words[0], &words[1..]);
        program.args(["rping", side, "-a", &site.server().address]);
        program.args(["-p", &port_word, "-C", "20", "-V"]);
        program
    };
    let mut server = process::spawn(end("-s"), &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let client = process::run(end("-c"), &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    expect_success(&[&client, &server])?;
    clean(&dir, 2, Leaks::Allowed)
}
