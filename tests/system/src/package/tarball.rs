//! An archive that can be unpacked anywhere, and one of the debug symbols.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::command::done;
use super::files::Layout;
use super::{Work, readable};
use crate::build;
use crate::install;

/// The directory in the archive.
const NAME: &str = concat!("ferroce-", env!("CARGO_PKG_VERSION"), "-x86_64-linux-gnu");
/// Of the file of pkg-config, from where it is.
const PREFIX: &str = "${pcfiledir}/../..";

/// Makes both.
pub(super) fn make(work: &Work<'_>) -> Result<Vec<PathBuf>> {
    let dir = work.fresh("tarball")?;
    let root = dir.join(NAME);
    install::put_all(&work.files, &Layout::plain(PREFIX), &root)?;
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        copied(&build::workspace().join(name), &root.join(name))?;
    }

    let debug = format!("{NAME}-debug");
    for symbol in work.symbols.all() {
        copied(
            &symbol.file,
            &dir.join(&debug).join(".build-id").join(symbol.name()),
        )?;
    }
    // What is compressed already, section by section, gets no smaller.
    Ok(vec![
        packed(work, &dir, NAME, "-6")?,
        packed(work, &dir, &debug, "-1")?,
    ])
}

fn copied(from: &Path, to: &Path) -> Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(())
}

fn packed(work: &Work<'_>, dir: &Path, name: &str, level: &str) -> Result<PathBuf> {
    readable(&dir.join(name))?;
    let archive = work.out.join(format!("{name}.tar.xz"));
    let mut tar = work.command("tar");
    tar.env("XZ_OPT", level)
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", work.epoch))
        .args(["--mode=u+rw,go+r,go-w", "--create", "--xz", "--file"])
        .arg(&archive)
        .arg("--directory")
        .args([dir, Path::new(name)]);
    done(&mut tar)?;
    Ok(archive)
}
