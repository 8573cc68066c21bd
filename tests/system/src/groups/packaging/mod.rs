//! Group `packages`: each kind of package installed as a user does it, ib_write_bw's table over
//! what is installed, and nothing left when it is removed.
//!
//! Where nothing is named, packages of the build at hand, .deb files in Debian 13; named, those of
//! the portable build, in Debian 12 and 13, with all that belongs to them.

mod deb;
mod here;
mod made;
mod python;
mod runs;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::build;
use crate::distro::{DEBIAN_12, DEBIAN_13};
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::lab::Lab;
use crate::package::{self, Format};

const SHORT: &str = "packages/short";

/// The directory of packages that a case is about.
type About = fn(&mut Lab, &Path) -> Ending;

/// What is tried on this machine.
const HERE: &[(&str, About)] = &[
    ("wheel", here::wheel),
    ("pytest, the newest", python::newest),
    ("tarball", here::tarball),
    ("rpm", here::rpm),
    ("auditwheel", made::auditwheel),
    ("lintian", made::lintian),
    ("debug symbols", made::symbols),
    ("made again", made::again),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::many(SHORT, short)];
    for distribution in [DEBIAN_13, DEBIAN_12] {
        let name = |what: &str| format!("packages/{}/{what}", distribution.name);
        cases.push(Case::new(name("deb"), move |lab| {
            deb::whole(lab, &portable()?, distribution)
        }));
        cases.push(Case::new(name("wheel"), move |lab| {
            deb::wheel(lab, &portable()?, distribution)
        }));
    }
    for &(name, about) in HERE {
        cases.push(Case::new(format!("packages/{name}"), move |lab| {
            about(lab, &portable()?)
        }));
    }
    cases
}

/// Whether a case is run: the short form where no group is named, else the whole, unless the short
/// form is asked for.
pub(crate) fn belongs(filters: &[String], name: &str) -> bool {
    if !name.starts_with("packages/") {
        return true;
    }
    let short = filters.is_empty() || filters.iter().any(|filter| filter == SHORT);
    short == (name == SHORT)
}

/// Packages of the build at hand.
fn short(lab: &mut Lab) -> Parts {
    let out = build::scratch("package-at-hand")?;
    let formats = [Format::Deb, Format::Wheel, Format::Tarball];
    package::make(&package::at_hand(lab.programs())?, &formats, &out)?;
    Ok(vec![
        ("deb".to_owned(), deb::short(lab, &out, DEBIAN_13)),
        ("wheel".to_owned(), here::wheel(lab, &out)),
        ("pytest".to_owned(), python::at_hand(lab, &out)),
        ("tarball".to_owned(), here::tarball(lab, &out)),
        ("prefix".to_owned(), here::prefix(lab)),
    ])
}

/// Packages of the portable build, made once.
fn portable() -> Result<PathBuf, Stop> {
    static MADE: Mutex<bool> = Mutex::new(false);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let out = build::scratch("package-portable")?;
    if !*made {
        package::make(&package::portable()?, &[], &out)?;
        *made = true;
    }
    Ok(out)
}

/// The packages of a directory whose names begin and end so.
fn named(dir: &Path, starts: &str, ends: &str) -> Result<Vec<PathBuf>, Stop> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(anyhow::Error::from)? {
        let path = entry.map_err(anyhow::Error::from)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(starts) && name.ends_with(ends) {
            found.push(path);
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err(Stop::fail(format!("no {starts}*{ends} was made"))),
        false => Ok(found),
    }
}
