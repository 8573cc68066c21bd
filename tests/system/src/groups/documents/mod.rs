//! Group `documents`: what the documents tell their readers to type is run as it is printed, each
//! paragraph in a fresh shell, home and network, from an installed prefix; and it shows what it
//! should. What is not run says why, in the table of its document. Jobs of continuous integration
//! are run by stand-ins for their runners.

mod github;
mod gitlab;
mod page;
mod room;
mod schemas;
mod table;

use std::path::{Path, PathBuf};

use self::page::Page;
use self::room::{Room, judge};
use self::table::{Table, Unit};
use crate::build;
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::lab::Lab;
use crate::packages;

/// Files that a document has, by their names.
type Files = Vec<(String, String)>;

/// What installs it, as README has it; the others find it installed.
const INSTALL: &str = "cargo xtask install --prefix ~/.local";

/// The documents, and what is known of their commands.
const DOCUMENTS: &[(&str, &str)] = &[
    ("README.md", include_str!("readme.toml")),
    ("docs/ci.md", include_str!("ci.toml")),
    ("docs/applications.md", include_str!("applications.toml")),
    ("docs/ibta.md", include_str!("ibta.toml")),
    ("docs/faults.md", include_str!("faults.toml")),
    ("docs/python.md", include_str!("python.toml")),
    ("docs/tutorial.md", include_str!("tutorial.toml")),
];

pub(crate) fn cases() -> Vec<Case> {
    let documents = DOCUMENTS.iter().map(|(file, rows)| {
        Case::many(format!("documents/{file}"), move |lab| {
            typed(lab, file, rows)
        })
    });
    let jobs = [github::cases(), gitlab::cases(), schemas::cases()];
    documents.chain(jobs.into_iter().flatten()).collect()
}

/// Everything of a document.
fn typed(lab: &mut Lab, file: &str, rows: &str) -> Parts {
    lab.vacate();
    if file.ends_with("applications.md") {
        packages::ensure(packages::APPLICATIONS)?;
    }
    let (units, files) = read(file, rows)?;
    let base = Room::new(None, &[])?;
    let prefix = install(lab, &base)?;

    let mut endings = Vec::new();
    for unit in &units {
        if unit.row.excused.is_some() || unit.row.file.is_some() {
            continue;
        }
        endings.push((unit.name.clone(), one(lab, unit, &prefix, &files)));
    }
    Ok(endings)
}

/// A document's commands, and the files that it has.
fn read(file: &str, rows: &str) -> Result<(Vec<Unit>, Files), Stop> {
    let page = Page::read(&build::workspace().join(file))?;
    let units = Table::parse(rows)?.units(&page)?;
    let name = |unit: &Unit| Some((unit.row.file.clone()?, unit.text.clone()));
    let files = units.iter().filter_map(name).collect();
    Ok((units, files))
}

/// Installs ferroce below a room's home, by README's command; answers the prefix.
fn install(lab: &mut Lab, room: &Room) -> Result<PathBuf, Stop> {
    let (units, _) = read(DOCUMENTS[0].0, DOCUMENTS[0].1)?;
    let unit = units.iter().find(|unit| unit.text.trim() == INSTALL);
    let unit = unit.ok_or_else(|| Stop::fail(format!("README does not say `{INSTALL}`")))?;
    let finished = room.types(unit, &lab.case_dir()?)?;
    judge(unit, &finished)?;
    Ok(room.home().join(".local"))
}

fn one(lab: &mut Lab, unit: &Unit, prefix: &Path, files: &[(String, String)]) -> Ending {
    let room = Room::new(Some(prefix), files)?;
    let finished = room.types(unit, &lab.case_dir()?)?;
    judge(unit, &finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_run_or_excused() {
        for (file, rows) in DOCUMENTS {
            if let Err(Stop::Fail(failure)) = read(file, rows) {
                panic!("{file}: {}", failure.what);
            }
        }
    }

    /// The packages that README names are those that its commands need.
    #[test]
    fn the_packages_that_are_named_are_those_of_the_group() {
        let page = Page::read(&build::workspace().join("README.md")).unwrap();
        let mut lines = page.blocks.iter().flat_map(|block| block.text.lines());
        let line = lines.find(|line| line.starts_with("sudo apt install "));
        let mut named: Vec<_> = line.unwrap().split(' ').skip(3).collect();
        named.sort_unstable();
        assert_eq!(named, crate::packages::names(crate::packages::README));
    }
}
