//! Programs and libraries without their debug symbols, and these apart, where debuggers look for
//! them: by the file's build id.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::command::{done, output_of};
use super::files::{Content, File, Part};

/// Where debuggers look, below the root.
pub(super) const PLACE: &str = "usr/lib/debug/.build-id";

/// The symbols of the product.
#[derive(Default)]
pub(super) struct Symbols(Vec<Symbol>);

/// The symbols of a file.
pub(super) struct Symbol {
    pub part: Part,
    pub build_id: String,
    pub file: PathBuf,
}

impl Symbol {
    /// Its name below [`PLACE`].
    pub(super) fn name(&self) -> String {
        let (first, rest) = self.build_id.split_at(2);
        format!("{first}/{rest}.debug")
    }
}

impl Symbols {
    /// Takes the symbols off copies of the programs and libraries, which take the place of these in
    /// the table.
    pub(super) fn split(files: &mut [File], dir: &Path) -> Result<Symbols> {
        let mut symbols = Vec::new();
        for file in files {
            let Some(whole) = file.binary() else { continue };
            let build_id = build_id(whole)?;
            let apart = dir.join(format!("{}.debug", file.name));
            let stripped = dir.join(format!("{}.stripped", file.name));

            let objcopy = || Command::new("objcopy");
            done(
                objcopy()
                    .arg("--only-keep-debug")
                    .arg("--compress-debug-sections")
                    .args([whole, &apart]),
            )?;
            done(
                objcopy()
                    .arg("--strip-all")
                    .args(["--remove-section=.comment"])
                    .args([whole, &stripped]),
            )?;

            symbols.push(Symbol {
                part: file.part,
                build_id,
                file: apart,
            });
            file.content = Content::Copy(stripped);
        }
        Ok(Symbols(symbols))
    }

    /// Those of a part.
    pub(super) fn of(&self, part: Part) -> impl Iterator<Item = &Symbol> {
        self.0.iter().filter(move |symbol| symbol.part == part)
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Symbol> {
        self.0.iter()
    }
}

/// By what a debugger knows which symbols are a file's.
fn build_id(file: &Path) -> Result<String> {
    let said = output_of(
        Command::new("readelf")
            .args(["--notes", "--wide"])
            .arg(file),
    )?;
    let id = said
        .lines()
        .find_map(|line| Some(line.split_once("Build ID: ")?.1.trim()));
    let id = id.filter(|id| id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    Ok(id
        .with_context(|| format!("{} has no build id", file.display()))?
        .to_owned())
}
