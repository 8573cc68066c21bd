//! What the programs write of themselves: manual pages and completions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::command::done;

/// By what words each is told to, before the directory.
const PROGRAMS: [(&str, &str); 3] = [
    ("ferroce", "manual"),
    ("ferroced", "--manual"),
    ("ferroce-ibta", "manual"),
];

/// Has the programs in `product` write below `dir`, which is emptied first; answers it.
pub(crate) fn of(product: &Path, dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    }
    for (program, word) in PROGRAMS {
        done(Command::new(product.join(program)).arg(word).arg(dir))?;
    }
    Ok(dir.to_owned())
}
