//! `cargo xtask ibta-rxe`: the conformance suite against the kernel's rdma_rxe, in the guest. The
//! result is a page of the documentation.
//!
//! The agent is beside the device in the initial network namespace, the tester in one of its own, a
//! veth pair between them. Each family of tests is a run of its own. A packet that brings the
//! kernel down ends the guest: the test that sent it is noted, and another guest goes on without
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::build;
use crate::harness::case::Stop;
use crate::harness::process;
use crate::lab::guest;
use crate::lab::netns::done;
use crate::packages;

const PAGE: &str = "docs/conformance/rxe-suite.md";
/// For all families, in an emulated machine.
const LIMIT: Duration = Duration::from_secs(3600);
/// For one family there.
const FAMILY_LIMIT: Duration = Duration::from_secs(900);
/// How long the agent may take until it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(60);
const DEVICE: &str = "10.78.0.1";
const TESTER: &str = "10.78.0.2";
const PORT: u16 = 7000;
/// The namespace of the tester.
const SPACE: &str = "tester";
/// Guests that may end before all families are through.
const CRASHES: usize = 40;
/// How the guest's script ends where the kernel has crashed.
const CRASHED: i32 = 126;
/// The family that is run, below the shared directory.
const CURRENT: &str = "current";

/// What `ferroce-ibta run --json` says of a family.
#[derive(Deserialize)]
struct Document {
    tests: Vec<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Outcome {
    id: String,
    family: String,
    title: String,
    statements: Vec<String>,
    result: String,
    #[serde(default)]
    reason: String,
}

/// Runs the suite and writes the page.
pub fn run() -> Result<bool> {
    packages::ensure(packages::INTEROP)?;
    build::product()?;
    let share = build::scratch("ibta-rxe")?;
    fs::remove_dir_all(&share)?;
    let share = build::scratch("ibta-rxe")?;
    let this = std::env::current_exe()?;
    let (this, results) = (this.to_string_lossy(), share.to_string_lossy());
    println!(
        "xtask: the conformance suite against rdma_rxe in a guest; about a quarter of an hour"
    );
    let mut deadly = BTreeSet::new();
    loop {
        let without = deadly.iter().cloned().collect::<Vec<_>>().join(",");
        let mut command = vec![&*this, "ibta-rxe", "--results", &*results];
        if !deadly.is_empty() {
            command.extend(["--without", &without]);
        }

        let ended = guest::run(&command, &share, "suite", LIMIT).map_err(Stop::into_error)?;
        print!("{}", ended.out);
        if ended.success() {
            break;
        }

        match last_begun(&share, &families(&deadly)?) {
            Some(test) if ended.code() == Some(CRASHED) && deadly.len() < CRASHES => {
                println!("{test} ends the kernel");
                // It has the tests before; all of the family are run again.
                let family = fs::read_to_string(share.join(CURRENT))?;
                let _ = fs::remove_file(file(&share, &family));
                deadly.insert(test);
            }
            _ => bail!("the guest: {}\n{}", ended.ending(), ended.err),
        }
    }

    let kernel = fs::read_to_string(share.join("kernel"))?;
    let mut outcomes = Vec::new();
    for family in families(&deadly)? {
        let path = file(&share, &family.name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        outcomes.extend(serde_json::from_str::<Document>(&text)?.tests);
    }

    let page = build::workspace().join(PAGE);
    fs::write(&page, text(kernel.trim(), &outcomes, &deadly))
        .with_context(|| page.display().to_string())?;
    println!("{}\nwritten: {PAGE}", sums(&outcomes));
    Ok(true)
}

/// Tests that are run together.
struct Family {
    name: String,
    tests: Vec<String>,
}

fn file(results: &Path, family: &str) -> PathBuf {
    results.join(format!("{family}.json"))
}

/// All families with their tests of the transport, less what is deadly.
fn families(deadly: &BTreeSet<String>) -> Result<Vec<Family>> {
    let mut list = Command::new(build::release_dir()?.join("ferroce-ibta"));
    let output = list
        .args(["list", "--transport"])
        .output()
        .context("ferroce-ibta list")?;
    Ok(grouped(&String::from_utf8_lossy(&output.stdout), deadly))
}

fn grouped(list: &str, deadly: &BTreeSet<String>) -> Vec<Family> {
    let mut families: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in list.lines() {
        let mut words = line.split_whitespace();
        if let (Some(id), Some(family)) = (words.next(), words.next())
            && !deadly.contains(id)
        {
            families.entry(family).or_default().push(id.to_owned());
        }
    }
    let family = |(name, tests): (&str, _)| Family {
        name: name.to_owned(),
        tests,
    };
    families.into_iter().map(family).collect()
}

/// The part inside the guest: leaves what came of each family in `results`, but for those that have
/// been run already.
pub fn inside(results: &Path, without: &[String]) -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    fs::write(results.join("kernel"), release)?;
    link()?;
    let program = build::release_dir()?.join("ferroce-ibta");
    for family in families(&without.iter().cloned().collect())? {
        if file(results, &family.name).exists() {
            continue;
        }

        // Anew for each: what one did to the device's side is not the next one's.
        let mut agent = Command::new(&program);
        let listen = format!("{DEVICE}:{PORT}");
        agent.args(["agent", "--device", "rxe0", "--listen", &listen]);
        let mut agent = process::spawn(agent, results, "agent")?;
        if !agent.listens(PORT, LISTEN_LIMIT) {
            bail!("the agent does not listen: {}", agent.kill().err);
        }

        let mut suite = Command::new("ip");
        suite
            .args(["netns", "exec", SPACE])
            .arg(&program)
            .arg("run")
            .args(&family.tests)
            .args(["--agent", &listen, "--tester", TESTER])
            .arg("--json")
            .arg(file(results, &family.name))
            .current_dir("/tmp");

        fs::write(results.join(CURRENT), &family.name)?;
        let ended = process::run(suite, results, &family.name, FAMILY_LIMIT)?;
        let last = ended.out.lines().last().unwrap_or_default();
        println!(
            "{}: {last}, {:.0} s",
            family.name,
            ended.elapsed.as_secs_f64()
        );

        agent.kill();
        if ended.code().is_none() {
            bail!("{}: {}\n{}", family.name, ended.ending(), ended.err);
        }
    }

    Ok(())
}

/// The test that was run when the guest ended: the one after the last that its family's output
/// tells of.
fn last_begun(share: &Path, families: &[Family]) -> Option<String> {
    let name = fs::read_to_string(share.join(CURRENT)).ok()?;
    let family = families.iter().find(|family| family.name == name)?;
    let output = fs::read_to_string(share.join(format!("{name}.out"))).unwrap_or_default();
    let ended = |test: &&String| {
        let mut ids = output.lines().map(|line| line.split_whitespace().nth(1));
        ids.any(|id| id == Some(test.as_str()))
    };
    let tests = &family.tests;
    let last = tests.iter().rposition(|test| ended(&test));
    tests.get(last.map_or(0, |last| last + 1)).cloned()
}

/// rdma_rxe at one end of a veth pair, the tester's namespace at the other.
fn link() -> Result<()> {
    for module in ["rdma_rxe", "ib_umad", "veth"] {
        done(Command::new("modprobe").arg(module))?;
    }
    let device = format!("{DEVICE}/24");
    let tester = format!("{TESTER}/24");
    let steps: [&[&str]; 9] = [
        &["ip", "netns", "add", SPACE],
        &[
            "ip", "link", "add", "rveth", "mtu", "9000", "type", "veth", "peer", "name", "tveth",
            "mtu", "9000", "netns", SPACE,
        ],
        &["ip", "addr", "add", &device, "dev", "rveth"],
        &["ip", "link", "set", "lo", "up"],
        &["ip", "link", "set", "rveth", "up"],
        &["ip", "-n", SPACE, "addr", "add", &tester, "dev", "tveth"],
        &["ip", "-n", SPACE, "link", "set", "lo", "up"],
        &["ip", "-n", SPACE, "link", "set", "tveth", "up"],
        &[
            "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "rveth",
        ],
    ];

    for step in steps {
        done(Command::new(step[0]).args(&step[1..]))?;
    }
    Ok(())
}

fn count(outcomes: &[Outcome], result: &str) -> usize {
    outcomes.iter().filter(|one| one.result == result).count()
}

fn sums(outcomes: &[Outcome]) -> String {
    format!(
        "{} passed, {} failed, {} not applicable, {} errors of {}",
        count(outcomes, "PASS"),
        count(outcomes, "FAIL"),
        count(outcomes, "N/A"),
        count(outcomes, "ERROR"),
        outcomes.len()
    )
}

/// The page.
fn text(kernel: &str, outcomes: &[Outcome], deadly: &BTreeSet<String>) -> String {
    let deadly = match deadly.len() {
        0 => "none".to_owned(),
        _ => deadly.iter().cloned().collect::<Vec<_>>().join(", "),
    };

    let mut page = format!(
        "# The conformance suite against rdma_rxe\n\n\
         Written by `cargo xtask ibta-rxe`, which runs `ferroce-ibta` against the kernel's soft-RoCE in the guest of `tests/interop`: Linux {kernel}.\n\
         {}.\nBeside these there are tests that end the kernel: {deadly}. Tests of management want InfiniBand ports, which it has not. What the differences come from is in [ibta.md](../ibta.md#the-kernels-soft-roce); ferroce passes all of these.\n\n\
         | family | passed | failed | not applicable | errors |\n|---|---|---|---|---|\n",
        sums(outcomes)
    );

    let mut families: BTreeMap<&str, Vec<Outcome>> = BTreeMap::new();
    for one in outcomes {
        families.entry(&one.family).or_default().push(one.clone());
    }

    for (family, all) in &families {
        let [passed, failed, not, errors] =
            ["PASS", "FAIL", "N/A", "ERROR"].map(|result| count(all, result));
        let _ = writeln!(
            page,
            "| {family} | {passed} | {failed} | {not} | {errors} |"
        );
    }

    page += "\n| test | statements | what | result | what was seen |\n|---|---|---|---|---|\n";
    let bad = |one: &&Outcome| one.result != "PASS" && one.result != "N/A";
    for one in outcomes.iter().filter(bad) {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            one.id,
            one.statements.join(", "),
            one.title.replace('|', "\\|"),
            one.result,
            cell(&one.reason)
        );
    }

    page
}

/// Long reasons list every packet that was sent; the beginning tells.
fn cell(reason: &str) -> String {
    const LONG: usize = 200;
    let mut text = reason.replace('|', "\\|").replace('\n', " ");
    if let Some((at, _)) = text.char_indices().nth(LONG) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_lack_what_is_deadly() {
        let deadly = BTreeSet::from(["S09_7_4_1_22".to_owned()]);
        let list = "A_1  A  one\nS09_7_4_1_22  9.7.4.1  ends the kernel\nS09_7_4_1_23  9.7.4.1  does not\n";
        let families = grouped(list, &deadly);
        let seen: Vec<_> = families.iter().map(|f| (&*f.name, f.tests.len())).collect();
        assert_eq!(seen, [("9.7.4.1", 1), ("A", 1)]);
        assert_eq!(families[0].tests, ["S09_7_4_1_23"]);
    }

    #[test]
    fn the_test_behind_the_last_that_ended_is_blamed() {
        let share = tempfile::tempdir().unwrap();
        let families = [Family {
            name: "F".to_owned(),
            tests: ["A", "B", "C"].map(str::to_owned).to_vec(),
        }];
        assert_eq!(last_begun(share.path(), &families), None);
        fs::write(share.path().join(CURRENT), "F").unwrap();
        assert_eq!(last_begun(share.path(), &families).as_deref(), Some("A"));
        fs::write(
            share.path().join("F.out"),
            "PASS  A  one\nFAIL  B  two\n       why\n",
        )
        .unwrap();
        assert_eq!(last_begun(share.path(), &families).as_deref(), Some("C"));
    }

    #[test]
    fn what_passes_is_counted_and_what_fails_is_shown() {
        let one = |id: &str, result: &str| Outcome {
            id: id.to_owned(),
            family: "F".to_owned(),
            title: "a | b".to_owned(),
            statements: vec!["C9-1".to_owned()],
            result: result.to_owned(),
            reason: "x".repeat(300),
        };

        let page = text(
            "6.1",
            &[one("GOOD", "PASS"), one("BAD", "FAIL")],
            &BTreeSet::new(),
        );
        assert!(page.contains("| F | 1 | 1 | 0 | 0 |"), "{page}");
        assert!(
            page.contains("| BAD | C9-1 | a \\| b | FAIL | xxx"),
            "{page}"
        );

        assert!(!page.contains("GOOD") && !page.contains(&"x".repeat(201)));
    }
}
