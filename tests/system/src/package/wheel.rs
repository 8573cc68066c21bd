//! A wheel, for pip: the Python package, and the programs, which pip puts beside the environment's
//! Python, with what they find from there.
//!
//! A wheel can hold no links, so the provider has one name in it, and `ferroce` makes the links
//! where it runs. Which glibc it needs is in its name, as its files have it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::command::done;
use super::files::{Content, File, Layout, Part, Place};
use super::{Work, write};
use crate::build;
use crate::install;
use crate::portable;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes it.
pub(super) fn make(work: &Work<'_>) -> Result<PathBuf> {
    let root = work.fresh("wheel")?.join(format!("ferroce-{VERSION}"));
    let data = root.join(format!("ferroce-{VERSION}.data"));
    let files: Vec<&File> = work.files.iter().filter(|file| belongs(file)).collect();
    let mut newest = (2, 5);
    for file in &files {
        install::put_all(
            std::slice::from_ref(*file),
            &Layout::plain("/"),
            &data.join("data"),
        )?;
        if let Some(binary) = file.binary() {
            newest = newest.max(portable::newest_glibc(binary)?);
        }
    }
    // What pip makes executable.
    fs::rename(data.join("data/bin"), data.join("scripts"))?;

    let python = work.files.iter().filter(|file| file.part == Part::Python);
    for file in python {
        install::put_all(std::slice::from_ref(file), &Layout::wheel(), &root)?;
    }

    let (major, minor) = newest;
    let tag = format!("py3-none-manylinux_{major}_{minor}_x86_64");
    let information = root.join(format!("ferroce-{VERSION}.dist-info"));
    let about = format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask package\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    write(&information.join("WHEEL"), &about)?;
    describe(&information.join("METADATA"))?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let licence = fs::read_to_string(build::workspace().join(name)).context(name)?;
        write(&information.join("licenses").join(name), &licence)?;
    }

    let wheel = work.out.join(format!("ferroce-{VERSION}-{tag}.whl"));
    let mut pack = work.command("/usr/bin/python3");
    pack.args(["-m", "wheel", "pack", "--dest-dir"])
        .args([work.out, &root]);
    done(&mut pack)?;
    match wheel.exists() {
        true => Ok(wheel),
        false => anyhow::bail!("`wheel pack` has not made {}", wheel.display()),
    }
}

/// The device: programs, and what they load. pip leaves empty directories behind of whatever is
/// deeper than that, as manual pages and completions are; the command brings its own help.
fn belongs(file: &File) -> bool {
    let link = matches!(file.content, Content::Link(_));
    let place = matches!(file.place, Place::Programs | Place::Plugins);
    file.part == Part::Ferroce && place && !link
}

/// Appends README to the metadata, as those who show packages want it.
fn describe(metadata: &Path) -> Result<()> {
    let fields = fs::read_to_string(metadata).with_context(|| format!("{}", metadata.display()))?;
    let readme = fs::read_to_string(build::workspace().join("README.md")).context("README.md")?;
    write(
        metadata,
        &format!("{fields}Description-Content-Type: text/markdown\n\n{readme}"),
    )
}
