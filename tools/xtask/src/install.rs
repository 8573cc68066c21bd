//! `cargo xtask install --prefix DIR`: programs to DIR/bin, libraries under their final names to DIR/lib/ferroce.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::build;

/// Builds and copies.
pub fn run(prefix: &Path) -> Result<()> {
    let from = build::product()?;
    for path in copy(&from, prefix)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Copies what is built in `from`; answers what there is now below the prefix.
pub fn copy(from: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    let bin = prefix.join("bin");
    let lib = prefix.join("lib/ferroce");
    let programs = build::PROGRAMS.iter().map(|name| (*name, &bin, *name));
    let libraries = build::LIBRARIES
        .iter()
        .map(|(built, name)| (*built, &lib, *name));
    programs
        .chain(libraries)
        .map(|(built, dir, name)| place(&from.join(built), dir, name))
        .collect()
}

/// Copies beside the target and renames, so that a running program or mapped library stays whole.
fn place(from: &Path, dir: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    let target = dir.join(name);
    let fresh = dir.join(format!(".{name}.new"));
    fs::copy(from, &fresh).with_context(|| format!("{} to {}", from.display(), fresh.display()))?;
    fs::rename(&fresh, &target).with_context(|| format!("{}", target.display()))?;
    Ok(target)
}
