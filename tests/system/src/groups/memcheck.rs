//! Group `memcheck`: programs under Valgrind, which must find no invalid access and no leak of
//! ours. Where no group is named, the longest are not run, or a few of their tests.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::build;
use crate::groups::cm::{TCP, wait_for_listener};
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process;
use crate::harness::unittest::{self, Outcome, Verdict};
use crate::install;
use crate::lab::{Lab, Place};
use crate::programs::cprogram::{self, Compiler};
use crate::programs::exs;
use crate::programs::perftest::{Pair, odd};
use crate::programs::suite::Suite;
use crate::programs::valgrind::{self, Leaks};

const LIMIT: Duration = Duration::from_secs(300);
/// Both ends of each, over one daemon.
const PINGPONGS: &[&str] = &[
    "ibv_rc_pingpong -c -n 100",
    "ibv_rc_pingpong -c -e -s 100000 -n 20",
    "ibv_uc_pingpong -n 50",
    "ibv_ud_pingpong -n 50",
    "ibv_srq_pingpong -c -n 100",
    "ibv_xsrq_pingpong -n 50",
];
/// Programs of `tests/verbs`, with their second processes. Not `memory`: it unmaps what it has
/// registered, on purpose.
const PROGRAMS: &[&str] = &[
    "data", "lengths", "queues", "handles", "builder", "extended", "windows", "domains", "tags",
];
/// With this clang takes its runtime from a shared library, as gcc does. That of ThreadSanitizer,
/// in clang 14, crashes by itself.
const SHARED: &str = "-shared-libasan";
/// How the programs are built whose compiler looks for errors.
const SANITIZERS: &[Compiler] = &[
    Compiler {
        program: "cc",
        suffix: "-address",
        options: &["-fsanitize=address"],
    },
    Compiler {
        program: "cc",
        suffix: "-thread",
        options: &["-fsanitize=thread"],
    },
    Compiler {
        program: "clang",
        suffix: "-clang-address",
        options: &["-fsanitize=address"],
    },
    Compiler {
        program: "clang",
        suffix: "-clang-shared",
        options: &["-fsanitize=address", SHARED],
    },
    Compiler {
        program: "clang",
        suffix: "-clang-thread",
        options: &["-fsanitize=thread"],
    },
];
/// Files of rdma-core's suite, which frees what it makes.
const SUITES: &[&str] = &[
    "test_mr",
    "test_qp",
    "test_cqex",
    "test_parent_domain",
    "test_qpex",
];
/// What is run only where the group is named, as `cargo xtask nightly` does: these three take
/// nearly as long as all others. What they do, with other orders and sizes, `builder.c`,
/// `extended.c`, `test_mr` and the following do as well.
const LONG: [&str; 3] = [
    "memcheck/data.c",
    "memcheck/windows.c",
    "memcheck/pyverbs test_qpex",
];
/// Tests of these programs that are run where no group is named.
const SHORT: [(&str, &[&str]); 2] = [
    (
        "data",
        &["sizes_read", "small_mtu", "atomics", "send_with_invalidate"],
    ),
    (
        "windows",
        &[
            "type_1",
            "type_2",
            "beyond_the_end",
            "invalidated_by_the_other_process",
            "bind_beyond_the_region",
            "queue_pair_destroyed",
        ],
    ),
];

pub(crate) fn cases() -> Vec<Case> {
    let pingpongs = PINGPONGS
        .iter()
        .map(|line| Case::new(format!("memcheck/{line}"), |lab| pingpong(lab, line)));
    let programs = PROGRAMS
        .iter()
        .map(|name| Case::new(format!("memcheck/{name}.c"), |lab| program(lab, name, &[])));
    let short = SHORT.map(|(name, tests)| {
        let case = move |lab: &mut Lab| program(lab, name, tests);
        Case::new(format!("{SOME}{name}.c"), case)
    });
    let suites = SUITES
        .iter()
        .map(|name| Case::new(format!("memcheck/pyverbs {name}"), |lab| pyverbs(lab, name)));
    let sanitizers = SANITIZERS.iter().map(|compiler| {
        let words = compiler.options.join(" ");
        let name = format!("memcheck/shared.c with {} {words}", compiler.program);
        Case::many(name, move |lab| sanitized(lab, compiler))
    });

    let suppressions = Case::new("memcheck/ibv_devinfo with suppressions", suppressed);
    let files = Case::new("memcheck/exs_copy", copy);
    pingpongs
        .chain(programs)
        .chain(short)
        .chain(suites)
        .chain(sanitizers)
        .chain([files, suppressions])
        .collect()
}

/// How the names of the cases that run [`SHORT`] begin.
const SOME: &str = "memcheck/some of ";

/// Whether a case is run: where no group is named, some tests stand for the programs of [`LONG`],
/// else only where they are asked for.
pub(crate) fn belongs(filters: &[String], name: &str) -> bool {
    match filters.is_empty() {
        true => !LONG.contains(&name),
        false => !name.starts_with(SOME) || filters.iter().any(|filter| filter.starts_with(SOME)),
    }
}

/// Both ends under Valgrind.
fn pingpong(lab: &mut Lab, line: &str) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    let mut words = valgrind::command(&dir).into_iter();
    let pair = Pair {
        tool: words.next().unwrap_or_default(),
        options: words
            .chain(line.split_whitespace().map(str::to_owned))
            .chain(["-g", "0"].map(str::to_owned))
            .collect(),
        port,
        limit: LIMIT,
    };

    let ends = pair.run(site.server(), site.client(), &dir)?;
    for finished in [&ends.client, &ends.server] {
        if !finished.success() {
            return Err(ends.fail(finished.ending()));
        }
        if let Some(line) = odd(&finished.err) {
            return Err(ends.fail(format!("says on stderr: {line}")));
        }
    }

    clean(&dir, 2, Leaks::Ours)
}

/// As somebody would run it who wants to hear of nothing but defects.
fn suppressed(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let mut command = lab.site(Place::OneDaemon)?.client().run("valgrind");
    let file = build::workspace().join(install::SUPPRESSIONS);
    command
        .args(["--fair-sched=try", "--leak-check=full", "--num-callers=40"])
        .args(["--error-exitcode=99", "ibv_devinfo"])
        .env(
            "VALGRIND_OPTS",
            format!("--suppressions={}", file.display()),
        );

    let finished = process::run(command, &dir, "program", LIMIT)?;
    if !finished.success() {
        return Err(Stop::with(finished.ending(), &[&finished]));
    }

    // Without the file there would have been something to say.
    match finished.err.contains("(suppressed: 0 from 0)") {
        true => Err(Stop::with("nothing was suppressed", &[&finished])),
        false => Ok(()),
    }
}

/// A program built with a sanitizer starts under `ferroce run` and passes.
fn sanitized(lab: &mut Lab, compiler: &Compiler) -> Parts {
    let dir = lab.case_dir()?;
    let mut runtime = None;
    if compiler.options.contains(&SHARED) {
        let mut asked = Command::new(compiler.program);
        asked.arg("-print-runtime-dir");
        runtime = Some(process::run(asked, &dir, "runtime", LIMIT)?);
    }
    crate::groups::sanitized::run(lab, "shared", compiler, |command| {
        if let Some(answer) = runtime {
            command.env("LD_LIBRARY_PATH", answer.out.trim());
        }
    })
}

/// A program's tests of these names, or all.
fn program(lab: &mut Lab, name: &str, tests: &[&str]) -> Ending {
    let program = cprogram::compile(name)?;
    let dir = lab.case_dir()?;
    let words = valgrind::command(&dir);
    let runs: Vec<Option<&str>> = match tests.is_empty() {
        true => vec![None],
        false => tests.iter().copied().map(Some).collect(),
    };
    for test in &runs {
        let mut command = lab.site(Place::OneDaemon)?.client().run(&words[0]);
        command.args(&words[1..]).arg(&program).args(*test);
        let finished = process::run(command, &dir, test.unwrap_or("program"), LIMIT)?;
        for (_, ending) in cprogram::endings(&finished) {
            match ending {
                Ok(()) | Err(Stop::Skip(_)) => {}
                failed => return failed,
            }
        }
    }
    // Some of their tests leave objects behind, to see what becomes of them.
    clean(&dir, runs.len(), Leaks::Allowed)
}

fn pyverbs(lab: &mut Lab, module: &str) -> Ending {
    let suite = Suite::unpack_module(module)?;
    let dir = lab.case_dir()?;
    let words = valgrind::command(&dir);
    let mut command = lab.site(Place::OneDaemon)?.client().run(&words[0]);
    command
        .args(&words[1..])
        // By these, before each test, the suite looks for addresses: they are none of ours.
        .arg("--trace-children-skip=*/ip,*/ls")
        .args([
            "/usr/bin/python3",
            "run_tests.py",
            "--dev",
            "ferroce0",
            "-v",
        ])
        // Python's own allocator would hide what is inside its arenas.
        .env("PYTHONMALLOC", "malloc")
        .current_dir(suite.tests());

    let finished = process::run(command, &dir, "suite", LIMIT)?;
    if !finished.success() {
        return Err(Stop::with(finished.ending(), &[&finished]));
    }

    let outcomes = unittest::read(&finished.err).map_err(|what| Stop::with(what, &[&finished]))?;
    let passed = |outcome: &Outcome| matches!(outcome.verdict, Verdict::Passed);
    if !outcomes.iter().any(passed) {
        return Err(Stop::with("none of these tests ran", &[&finished]));
    }

    clean(&dir, 1, Leaks::Ours)
}

/// A file from one EXS socket to another, both ends under Valgrind.
fn copy(lab: &mut Lab) -> Ending {
    let program = exs::example(&build::exs()?, "exs_copy")?;
    let (dir, port) = (lab.case_dir()?, lab.port());
    let host = lab.site(Place::OneDaemon)?.client();
    let (source, target) = (dir.join("source"), dir.join("target"));
    let bytes: Vec<u8> = (0..300_001u32).map(|i| (i * 7 % 251) as u8).collect();
    fs::write(&source, &bytes).context("source")?;
    let words = valgrind::command(&dir);
    let command = |arguments: [&OsStr; 2], server: bool| {
        let mut command = host.run(&words[0]);
        command.args(&words[1..]).arg(&program);
        command.args(["-p", &port.to_string()]);
        if server {
            command.arg("-b");
        }
        command.args(arguments);
        command
    };

    let address = OsStr::new(&host.address);
    let mut serve = command([address, OsStr::new("-l")], true);
    serve.arg(&target);
    let mut server = process::spawn(serve, &dir, "server")?;
    if !wait_for_listener(&mut server, host, TCP, port) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let call = command([source.as_os_str(), address], false);
    let client = process::run(call, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    let arrived = fs::read(&target).unwrap_or_default();
    if !client.success() || !server.success() || arrived != bytes {
        return Err(Stop::with("the file did not arrive", &[&client, &server]));
    }

    clean(&dir, 2, Leaks::Ours)
}

/// No finding that counts, in at least as many reports.
pub(crate) fn clean(dir: &Path, at_least: usize, leaks: Leaks) -> Ending {
    let (reports, found) = valgrind::findings(dir, leaks)?;
    if reports < at_least {
        return Err(Stop::fail(format!(
            "{reports} of {at_least} processes left a report"
        )));
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Stop::fail(found.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_where_no_group_is_named_is_run_where_it_is() {
        let names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
        let named = ["memcheck".to_owned()];
        for long in LONG {
            assert!(names.iter().any(|name| name == long), "{long}");
            assert!(belongs(&named, long) && !belongs(&[], long));
        }
        for (name, _) in SHORT {
            assert!(belongs(&[], &format!("{SOME}{name}.c")));
            assert!(LONG.contains(&format!("memcheck/{name}.c").as_str()));
        }
    }
}
