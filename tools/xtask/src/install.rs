//! `cargo xtask install --prefix DIR`: programs to DIR/bin, libraries under their final names to DIR/lib/ferroce.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::build;

/// Builds and copies.
pub fn run(prefix: &Path) -> Result<()> {
    let from = build::product()?;
    let bin = prefix.join("bin");
    let lib = prefix.join("lib/ferroce");
    for program in build::PROGRAMS {
        place(&from.join(program), &bin, program)?;
    }
    for (built, name) in build::LIBRARIES {
        place(&from.join(built), &lib, name)?;
    }
    Ok(())
}

/// Copies beside the target and renames, so that a running program or mapped library stays whole.
fn place(from: &Path, dir: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    let target = dir.join(name);
    let fresh = dir.join(format!(".{name}.new"));
    fs::copy(from, &fresh).with_context(|| format!("{} to {}", from.display(), fresh.display()))?;
    fs::rename(&fresh, &target).with_context(|| format!("{}", target.display()))?;
    println!("{}", target.display());
    Ok(())
}
