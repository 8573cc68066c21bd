//! `cargo xtask gates`: breaks the sources on purpose, in a copy of the newest commit, one thing at
//! a time, and sees that the case that is there for it fails and says what is wrong. A gate that
//! lets its break pass has rotted.

mod breaks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use comfy_table::Table;

use ferroce_system::build;
use ferroce_system::harness::process::{self, Finished};

use self::breaks::Change::{self, Advisory, Append, Commit, Replace};
use self::breaks::{BREAKS, Break};

/// A first build of everything, beside whatever else the machine has to do.
const LIMIT: Duration = Duration::from_secs(2 * 3600);

/// Where the database of advisories comes from.
const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";
/// The crate that has the weakness.
const WEAK: &str = "rustix";

/// Tries all, or those whose gate's name has one of these parts; true if every break was noticed.
pub(crate) fn run(parts: &[String]) -> Result<bool> {
    let chosen = |of: &&Break| parts.is_empty() || parts.iter().any(|part| of.gate.contains(part));
    let chosen: Vec<&Break> = BREAKS.iter().filter(chosen).collect();
    ensure!(
        !chosen.is_empty(),
        "no gate has a name with {parts:?} in it"
    );

    let copy = Copy::new()?;

    // What fails in whole sources proves nothing when it fails in broken ones.
    println!("xtask: the gates, of sources that are whole");
    let whole = copy.test(&chosen.iter().map(|of| of.gate).collect::<Vec<_>>(), None)?;
    if !whole.success() {
        bail!("they do not pass as it is:\n{}{}", whole.out, whole.err);
    }

    let mut table = Table::new();
    table.set_header(["gate", "broken", "noticed"]);
    let mut noticed = 0;
    for of in &chosen {
        println!("xtask: {}: {}", of.gate, of.what);
        copy.apply(&of.change)?;
        let finished = copy.test(&[of.gate], Some(&of.change))?;
        copy.mend()?;
        let verdict = match missed(of, &finished) {
            None => {
                noticed += 1;
                "yes"
            }
            Some(why) => {
                println!("{}{}", finished.out, finished.err);
                why
            }
        };

        table.add_row([of.gate, of.what, verdict]);
    }

    println!("{table}");
    println!("{noticed} of {} breaks were noticed", chosen.len());
    Ok(noticed == chosen.len())
}

/// Why a break was not noticed, if so.
fn missed(of: &Break, finished: &Finished) -> Option<&'static str> {
    let failed = finished.out.contains(&format!("FAILED   {}", of.gate));
    let skipped = || {
        let mut lines = finished.out.lines();
        lines.any(|line| line.starts_with("skipped  "))
    };
    match failed {
        _ if finished.success() => Some("no: it passes"),
        true if finished.out.contains(of.said) => None,
        false if skipped() => Some("no: it was skipped"),
        _ => Some("no: something else failed"),
    }
}

/// A clone with a target directory of its own, which stays for the next time.
struct Copy {
    place: PathBuf,
    /// The commit that it is of.
    commit: String,
}

impl Copy {
    fn new() -> Result<Copy> {
        let newest = git(build::workspace(), &["rev-parse", "HEAD"])?;
        let copy = Copy {
            place: build::scratch("gates")?.join("tree"),
            commit: newest.trim().to_owned(),
        };

        if !copy.place.join(".git").exists() {
            let place = copy.place.display().to_string();
            git(
                build::workspace(),
                &["clone", "--quiet", "--no-checkout", ".", &place],
            )?;
        }

        let origin = build::workspace().display().to_string();
        git(&copy.place, &["fetch", "--quiet", &origin, "HEAD"])?;
        git(
            &copy.place,
            &["checkout", "--quiet", "--force", "--detach", &copy.commit],
        )?;

        Ok(copy)
    }

    fn apply(&self, change: &Change) -> Result<()> {
        match change {
            Append(name, text) => self.edit(name, |old| Ok(format!("{old}{text}"))),
            Replace(name, from, to) => self.edit(name, |old| {
                ensure!(old.contains(from), "{name} has no {from:?} any more");
                Ok(old.replacen(from, to, 1))
            }),
            Commit(message) => {
                let commit = ["commit", "--quiet", "--allow-empty", "--message", message];
                git(&self.place, &[&WHO[..], &commit].concat()).map(drop)
            }
            Advisory(id) => {
                let database = self.database();
                if database.exists() {
                    fs::remove_dir_all(&database)?;
                }

                let of_crate = database.join("crates").join(WEAK);
                fs::create_dir_all(&of_crate)?;
                fs::write(of_crate.join(format!("{id}.md")), advisory(id))?;
                git(&database, &["init", "--quiet", "--initial-branch=main"])?;
                git(&database, &["add", "."])?;
                let commit = ["commit", "--quiet", "--message", "one"];
                git(&database, &[&WHO[..], &commit].concat())?;

                // Not into the user's own copy of the true one.
                let with = "[advisories]\ndb-path = \"target/advisories\"\n";
                self.edit("deny.toml", |old| {
                    Ok(old.replacen("[advisories]\n", with, 1))
                })
            }
        }
    }

    /// Where the database of [`Advisory`] is.
    fn database(&self) -> PathBuf {
        self.place.with_file_name("advisories")
    }

    fn edit(&self, name: &str, with: impl FnOnce(&str) -> Result<String>) -> Result<()> {
        let file = self.place.join(name);
        let old = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        fs::write(&file, with(&old)?).with_context(|| file.display().to_string())
    }

    /// As it was committed.
    fn mend(&self) -> Result<()> {
        git(&self.place, &["reset", "--quiet", "--hard", &self.commit]).map(drop)
    }

    /// `cargo xtask test` of these cases, there. With a database of our own git takes that for the
    /// true one.
    fn test(&self, gates: &[&str], change: Option<&Change>) -> Result<Finished> {
        let mut command = Command::new("cargo");
        command
            .args(["xtask", "test"])
            .args(gates)
            .current_dir(&self.place);

        // The cargo that runs us is of this workspace; theirs is found anew.
        for name in ["CARGO", "RUSTC", "RUSTDOC", "CARGO_TARGET_DIR"] {
            command.env_remove(name);
        }
        if let Some(Advisory(_)) = change {
            let instead = format!("url.file://{}.insteadOf", self.database().display());
            command
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", instead)
                .env("GIT_CONFIG_VALUE_0", ADVISORIES);
        }

        process::run(command, &build::scratch("gates")?, "test", LIMIT)
    }
}

/// Who commits what is broken.
const WHO: [&str; 4] = ["-c", "user.name=gates", "-c", "user.email=gates@localhost"];

/// An advisory as the database has it, against all versions of the crate.
fn advisory(id: &str) -> String {
    format!(
        "```toml\n[advisory]\nid = \"{id}\"\npackage = \"{WEAK}\"\ndate = \"2000-01-01\"\n\n[versions]\npatched = []\n```\n\n# Made up\n\nIt is not real.\n"
    )
}

fn git(dir: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(words).current_dir(dir).stdin(Stdio::null());
    let output = command.output().context("git")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_replaced_is_there() {
        for of in BREAKS {
            match &of.change {
                Append(name, _) => assert!(build::workspace().join(name).exists(), "{name}"),
                Replace(name, from, to) => {
                    let text = fs::read_to_string(build::workspace().join(name)).unwrap();
                    assert!(text.contains(from), "{name}: {from}");
                    assert!(!text.contains(to), "{name}: {to}");
                }
                Commit(_) | Advisory(_) => {}
            }
        }
    }
}
