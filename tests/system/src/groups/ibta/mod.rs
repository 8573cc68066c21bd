//! Group `ibta`: the conformance suite on the simulated device, its mutants, and the suite on
//! ferroce's own devices.
//!
//! `ferroce-ibta` does all of it by itself; here its results become cases, and what it does with
//! bad input and with failures is looked at from outside.

mod around;
mod as_written;
mod cables;
mod link_local;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::build;
use crate::harness::case::expect;
use crate::harness::case::{Case, Company, Ending, Parts, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;

const LIMIT: Duration = Duration::from_secs(60);
/// Where the packets of tests that fail are kept, below the current directory.
const CAPTURES: &str = "ferroce-ibta-captures";
/// For what is simulated of all tests: the longest, every mutant of each, takes half a minute by
/// itself.
const SIMULATED_LIMIT: Duration = Duration::from_secs(180);
/// For the whole suite in real time, where the machine stands still now and then and tests are run
/// again for that.
const SUITE_LIMIT: Duration = Duration::from_secs(900);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("ibta/simulated/every test passes", |lab| {
            whole(lab, &["run", "--all", "--sim"])
        }),
        Case::new("ibta/simulated/every mutant is caught", |lab| {
            whole(lab, &["mutants"])
        }),
        Case::new(
            "ibta/simulated/docs/conformance/suite.md is up to date",
            |lab| {
                let path = build::workspace().join("docs/conformance/suite.md");
                whole(lab, &["conformance", "--check", &path.to_string_lossy()])
            },
        ),
        Case::new(
            "ibta/simulated/docs/conformance/statements.md is up to date",
            |lab| {
                let path = build::workspace().join("docs/conformance/statements.md");
                whole(lab, &["statements", "--check", &path.to_string_lossy()])
            },
        ),
        Case::new("ibta/simulated/statements for programs", statements),
        Case::new("ibta/simulated/a failure is told and kept", failure),
        Case::new("ibta/simulated/a failure on a cable is kept", cable),
        Case::new("ibta/simulated/a failure that cannot be kept", not_kept),
        // On the machine's own clock.
        Case::many("ibta/ferroce0", |lab| suite(lab, &["--all"])).in_company(Company::InPairs),
        Case::many("ibta/on a cable", |lab| {
            suite(lab, &[ON_A_CABLE, &["--infiniband"]].concat())
        })
        .in_company(Company::InPairs),
    ];

    for (name, args, words) in BAD_INPUT {
        cases.push(Case::new(format!("ibta/bad input/{name}"), |lab| {
            refused(lab, args, words)
        }));
    }

    cases.extend(as_written::cases());
    cases.extend(around::cases());
    cases.extend(cables::cases());
    cases.extend(link_local::cases());
    cases.extend(page::cases());
    cases
}

/// What is given, and what the message must say.
const BAD_INPUT: &[(&str, &[&str], &str)] = &[
    (
        "a test that there is not",
        &["run", "C09_60_09"],
        "did you mean C09_060_09?",
    ),
    (
        "a test that no document has",
        &["run", "C09_060_05", "--as-written"],
        "no test is named C09_060_05",
    ),
    (
        "a family that there is not",
        &["run", "--family", "C09-061"],
        "no family is named C09-061",
    ),
    (
        "a statement that there is not",
        &["run", "C9-999"],
        "no test is about a statement or section of that number",
    ),
    (
        "a mutant that there is not",
        &["run", "C09_060_09", "--sim", "--mutant", "x"],
        "C09_060_09 has no mutant x",
    ),
    (
        "a device that there is not",
        &[
            "run",
            "C09_060_09",
            "--device",
            "nosuch0",
            "--tester",
            "127.0.0.9",
        ],
        "nosuch0",
    ),
    (
        "a device that there is not, and no cable",
        &["run", "--family", "C14-024", "--device", "nosuch0"],
        "there is no device nosuch0",
    ),
    (
        "an agent that there is not, and no cable",
        &["run", "--family", "C14-024", "--agent", "127.0.0.1:1"],
        "127.0.0.1:1 cannot be reached",
    ),
    (
        "a statement, an agent that there is not, and no cable",
        &["run", "C14-24.1.1", "--agent", "127.0.0.1:1"],
        "127.0.0.1:1 cannot be reached",
    ),
    (
        "a part without tests",
        &["run", "C09_142_01", "--shard", "2/3", "--sim"],
        "none of them is in part 2/3",
    ),
    (
        "an agent that there is not",
        &["run", "C09_060_09", "--agent", "127.0.0.1:1"],
        "127.0.0.1:1",
    ),
];

fn run(lab: &mut Lab, args: &[&str], limit: Duration) -> Result<(Finished, PathBuf), Stop> {
    let dir = lab.case_dir()?;
    Ok((run_in(lab, &dir, args, limit)?, dir))
}

fn run_in(lab: &Lab, dir: &Path, args: &[&str], limit: Duration) -> Result<Finished, Stop> {
    let mut command = Command::new(lab.programs().join("ferroce-ibta"));
    command.args(args).current_dir(dir);
    Ok(process::run(command, dir, "ferroce-ibta", limit)?)
}

/// All must end well, and then nothing is kept.
fn whole(lab: &mut Lab, args: &[&str]) -> Ending {
    let (finished, dir) = run(lab, args, SIMULATED_LIMIT)?;
    match finished.success() && !dir.join(CAPTURES).exists() {
        true => Ok(()),
        false => Err(Stop::with("not all is well", &[&finished])),
    }
}

/// Bad input is exit code 2 and a message, soon.
fn refused(lab: &mut Lab, args: &[&str], words: &str) -> Ending {
    let (finished, _) = run(lab, args, LIMIT)?;
    if finished.code() != Some(2) || !finished.err.contains(words) {
        let what = format!("must end with 2 and a message that says {words:?}");
        return Err(Stop::with(what, &[&finished]));
    }
    Ok(())
}

/// What of the transport is also tested on a cable to an InfiniBand port, by statement and section.
/// Left out are most timeouts and retries (C9-142, C9-143), which wait as long as all others
/// together, and the states (10.3.1): neither timers nor states know what carries packets.
const ON_A_CABLE: &[&str] = &[
    "C9-27",
    "C9-60",
    "C9-130",
    "9.4.5",
    "9.5",
    "9.6.1",
    "9.7",
    "9.8",
    "C09_142_READ",
    "C09_143_RETRY_2",
];

/// Tests of what ferroce's own device does not have (its ports have one lane for data). Everything
/// else must pass.
const NOT_APPLICABLE: &[&str] = &["C14_024_08_01", "C14_024_09_CA"];

/// Testers beside each other, each with a device of its own: most of their time they wait for
/// timers.
const TESTERS: usize = 3;

/// Tests on devices that are started for them: each is a result here.
fn suite(lab: &mut Lab, which: &[&str]) -> Parts {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut testers = Vec::new();
    for nth in 1..=TESTERS {
        let (shard, file) = (format!("{nth}/{TESTERS}"), format!("results-{nth}.json"));
        let mut command = Command::new(lab.programs().join("ferroce-ibta"));
        command
            .args(["run", "--shard", &shard, "--json", &file])
            .args(which)
            .current_dir(&dir);
        let name = format!("ferroce-ibta-{nth}");
        testers.push((process::spawn(command, &dir, &name)?, dir.join(file)));
    }

    let mut endings = Vec::new();
    for (tester, file) in testers {
        endings.extend(of_tester(&tester.finish(SUITE_LIMIT), &file, &dir)?);
    }
    Ok(endings)
}

/// How the tests of one tester ended, and whether its exit code says so.
fn of_tester(finished: &Finished, file: &Path, dir: &Path) -> Parts {
    let tests = results(file).map_err(|error| {
        let what = format!("no results: {error:#}");
        Stop::with(what, &[finished])
    })?;

    let mut endings = Vec::new();
    for test in &tests {
        let text = |name: &str| test[name].as_str().unwrap_or_default().to_owned();
        let due = match NOT_APPLICABLE.contains(&text("id").as_str()) {
            true => "N/A",
            false => "PASS",
        };

        let ending = expect(text("result") == due, || {
            format!(
                "{} {}; packets: {}",
                text("result"),
                text("reason"),
                dir.join(text("packets")).display()
            )
        });

        tell_inconclusive(&text("id"), test);
        endings.push((text("id"), ending));
    }

    let bad = |test: &Value| test["result"] == "FAIL" || test["result"] == "ERROR";
    let ended = !tests.is_empty() && finished.success() != tests.iter().any(bad);
    let ending = match ended {
        true => Ok(()),
        false => Err(Stop::with(
            "the exit code is not that of the results",
            &[finished],
        )),
    };

    let which = file.file_stem().unwrap_or_default().to_string_lossy();
    endings.push((format!("the exit code is that of {which}"), ending));
    Ok(endings)
}

/// A test that was inconclusive, and so run again, is told of, however it ended.
fn tell_inconclusive(id: &str, test: &Value) {
    let entries = test["entries"].as_array().into_iter().flatten();
    for entry in entries.filter(|entry| entry["kind"] == "inconclusive") {
        let seen = entry["seen"].as_str().unwrap_or_default();
        println!("note  {id} was inconclusive: {seen}");
    }
}

fn results(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let document: Value = serde_json::from_str(&text)?;
    let tests = document["tests"].as_array().context("no list of tests")?;
    Ok(tests.clone())
}

/// The matrix of statements as JSON, with what rdma_rxe does.
fn statements(lab: &mut Lab) -> Ending {
    let page = build::workspace().join("docs/conformance/rxe-suite.md");
    let args = ["statements", "--json", "--rxe", &page.to_string_lossy()];
    let (finished, _) = run(lab, &args, LIMIT)?;
    let matrix: Value = serde_json::from_str(&finished.out)
        .map_err(|error| Stop::with(format!("no JSON: {error}"), &[&finished]))?;
    let rows = matrix["statements"].as_array().into_iter().flatten();
    let mut of = rows.filter(|row| row["number"] == "C9-142");
    let row = of.next().context("no row of C9-142")?;
    let passed = |device: &str| row[device]["passed"].as_u64().unwrap_or_default();
    let failed = row["rdma_rxe"]["failed"].as_array().map_or(0, Vec::len);
    // Its timers are too early (docs/ibta.md).
    let good = row["kind"] == "C" && passed("ferroce") > 5 && passed("rdma_rxe") > 0 && failed > 0;
    expect(good, || format!("C9-142 is {row}"))
}

/// A run that fails.
const FAILING: &[&str] = &[
    "run",
    "C09_060_09",
    "--sim",
    "--mutant",
    "completes-when-posted",
];

/// A mutant fails: exit code 1, the assertion in every report, and packets that tshark takes apart.
fn failure(lab: &mut Lab) -> Ending {
    let reports = ["--json", "results.json", "--junit", "results.xml"];
    let (finished, dir) = run(lab, &[FAILING, &reports].concat(), LIMIT)?;
    let tests = results(&dir.join("results.json"))?;
    let xml = fs::read_to_string(dir.join("results.xml")).context("results.xml")?;
    let capture = format!("{CAPTURES}/C09_060_09.pcapng");
    let said = finished.code() == Some(1)
        && finished.out.contains("v1c09-060#07: FAIL")
        && finished.out.contains(&format!("packets: {capture}\n"))
        && tests[0]["packets"] == capture.as_str()
        && tests[0]["result"] == "FAIL"
        && tests[0]["assertions"][0]["id"] == "v1c09-060#07"
        && tests[0]["assertions"][0]["result"] == "FAIL"
        && xml.contains("<failure message=\"v1c09-060#07: ");

    if !said {
        return Err(Stop::with(
            "the failure is not told everywhere",
            &[&finished],
        ));
    }

    let packets = tshark(&dir, &capture, &["infiniband.bth.opcode"])?;
    expect(packets == ["19", "19", "18"], || {
        format!("two requests and an answer must be in the capture, there are {packets:?}")
    })
}

/// The same of MADs on a cable.
fn cable(lab: &mut Lab) -> Ending {
    const TEST: &str = "C14_024_06_CA_04";
    const MUTANT: &str = "receiving-port-does-not-count";
    let (finished, dir) = run(lab, &["run", TEST, "--sim", "--mutant", MUTANT], LIMIT)?;
    if finished.code() != Some(1) {
        return Err(Stop::with("the mutant must fail", &[&finished]));
    }
    // Attribute 0x15 is PortInfo.
    let capture = format!("{CAPTURES}/{TEST}.pcapng");
    let packets = tshark(&dir, &capture, &["infiniband.mad.attributeid"])?;
    let about_ports = packets.iter().filter(|id| id.contains("0x0015")).count();
    expect(about_ports > 10, || {
        format!("SMPs about PortInfo must be in the capture, there are {packets:?}")
    })
}

/// Packets that there is no place for: the test has failed all the same, and it is said why there
/// are none.
fn not_kept(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    fs::write(dir.join(CAPTURES), "in the way").context(CAPTURES)?;
    let finished = run_in(lab, &dir, FAILING, LIMIT)?;
    let said = finished.code() == Some(1)
        && finished.out.contains("0 passed, 1 failed")
        && !finished.out.contains("packets:")
        && finished.err.contains("packets are not kept")
        && finished.err.contains(CAPTURES);
    match said {
        true => Ok(()),
        false => Err(Stop::with("the failure is not told", &[&finished])),
    }
}

/// The fields of every packet of a capture, none of which may be malformed.
fn tshark(dir: &Path, capture: &str, fields: &[&str]) -> Result<Vec<String>, Stop> {
    let mut command = Command::new("tshark");
    command.args(["-r", capture, "-T", "fields", "-e", "_ws.malformed"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    command.current_dir(dir);
    let finished = process::run(command, dir, "tshark", LIMIT)?;
    let lines: Vec<&str> = finished.out.lines().collect();
    if !finished.success() || lines.iter().any(|line| !line.starts_with('\t')) {
        return Err(Stop::with("malformed packets", &[&finished]));
    }
    Ok(lines.iter().map(|line| line[1..].to_owned()).collect())
}
