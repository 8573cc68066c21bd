//! Group `sanitized`: the C programs of `tests/verbs` with gcc's AddressSanitizer and
//! UndefinedBehaviorSanitizer. What libraries and shim hand to a program is looked at from the
//! program's side: a completion, an event or an attribute that is written beyond its end, a value
//! that no enum has.

use std::process::Command;
use std::time::Duration;

use crate::groups::cm;
use crate::groups::errors;
use crate::groups::verbs;
use crate::harness::case::{Case, Parts, Stop};
use crate::harness::process;
use crate::lab::{Lab, Place};
use crate::programs::cprogram::{self, Compiler};

const GROUP: &str = "sanitized";
const LIMIT: Duration = Duration::from_secs(300);
const COMPILER: Compiler = Compiler {
    program: "cc",
    suffix: "-sanitized",
    options: &[
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    ],
};

/// Its memory is at addresses that AddressSanitizer wants for itself.
const AT_FIXED_ADDRESSES: &str = "memory";

pub(crate) fn cases() -> Vec<Case> {
    let errors = errors::PROGRAMS.iter().map(|(name, _)| name);
    let programs = verbs::PROGRAMS.iter().chain(errors).chain(cm::PROGRAMS);
    programs
        .filter(|name| **name != AT_FIXED_ADDRESSES)
        .map(|name| {
            Case::many(format!("{GROUP}/{name}.c"), |lab| {
                // Some tests leave objects behind, to see what becomes of them.
                run(lab, name, &COMPILER, |command| {
                    command.env("ASAN_OPTIONS", "detect_leaks=0");
                })
            })
        })
        .collect()
}

/// Runs the tests of a program over one device; a report of a sanitizer fails them all. `prepare`
/// sees the command first.
pub(crate) fn run(
    lab: &mut Lab,
    name: &str,
    compiler: &Compiler,
    prepare: impl FnOnce(&mut Command),
) -> Parts {
    let program = cprogram::compile_by(name, compiler)?;
    let dir = lab.case_dir()?;
    let mut command = lab.site(Place::OneDaemon)?.client().run(&program);
    prepare(&mut command);
    let finished = process::run(command, &dir, "program", LIMIT)?;
    let found = ["Sanitizer", "runtime error:"];
    if found.iter().any(|word| finished.err.contains(word)) {
        return Err(Stop::with("a sanitizer complains", &[&finished]));
    }
    Ok(cprogram::endings(&finished))
}
