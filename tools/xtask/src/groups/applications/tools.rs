//! Tools for developers at work on such programs: gdb and Valgrind.

use super::{LIMIT, command, expect_success};
use crate::case::{Case, Ending, Stop};
use crate::groups::memcheck::clean;
use crate::lab::{Lab, Place};
use crate::process;
use crate::valgrind::{self, Leaks};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("applications/one-daemon/gdb", debugger),
        Case::new("applications/one-daemon/fi_info under Valgrind", memcheck),
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
