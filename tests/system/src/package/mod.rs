//! `cargo xtask package`: packages of one build, each made by the tool of its own kind (dpkg-deb,
//! rpmbuild, `wheel`, tar) out of one table of files.
//!
//! Programs and libraries are stripped; what was taken off them is packaged apart.

pub(crate) mod command;
mod deb;
mod debug;
pub(crate) mod files;
mod list;
pub(crate) mod manual;
pub(crate) mod product;
mod python;
mod rpm;
mod tarball;
mod wheel;

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::build;
use crate::packages;
use crate::portable::{self, Target};
use command::{done, output_of};
use debug::Symbols;
use files::File;
use product::Build;

/// The kinds of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For Debian, Ubuntu and what is made of them
    Deb,
    /// For Fedora, RHEL, SUSE and what is made of them
    Rpm,
    /// For pip
    Wheel,
    /// To be unpacked anywhere
    Tarball,
}

/// Builds for every distribution, and packages; `formats`: all if there are none.
pub fn run(formats: &[Format], out: &Path) -> Result<()> {
    for path in make(&portable()?, formats, out)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// The portable build, as `cargo xtask portable` makes it, and libexs.
pub(crate) fn portable() -> Result<Build> {
    packages::ensure(packages::EXS)?;
    let target = Target::X86_64;
    let product = portable::product(target)?;
    Ok(Build {
        manual: manual::of(&product, &build::scratch("package")?.join("manual"))?,
        exs: portable::exs(target)?,
        product,
    })
}

/// The build in `product`, for this distribution and newer ones.
pub(crate) fn at_hand(product: &Path) -> Result<Build> {
    packages::ensure(packages::EXS)?;
    Ok(Build {
        manual: manual::of(product, &build::scratch("package")?.join("manual-at-hand"))?,
        exs: build::exs()?,
        product: product.to_owned(),
    })
}

/// Makes the packages of a build, into `out`; answers what is there now.
pub(crate) fn make(build: &Build, formats: &[Format], out: &Path) -> Result<Vec<PathBuf>> {
    packages::ensure(packages::PACKAGE)?;
    fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    let out = &fs::canonicalize(out)?;
    let work = tempfile::Builder::new()
        .prefix("ferroce-package-")
        .tempdir()?;
    let work = Work {
        files: build.files()?,
        symbols: Symbols::default(),
        dir: work.path(),
        out,
        epoch: epoch()?,
    }
    .stripped()?;

    let mut made = Vec::new();
    for &format in Format::value_variants() {
        if formats.is_empty() || formats.contains(&format) {
            made.extend(match format {
                Format::Deb => deb::make(&work)?,
                Format::Rpm => rpm::make(&work)?,
                Format::Wheel => vec![wheel::make(&work)?],
                Format::Tarball => tarball::make(&work)?,
            });
        }
    }
    Ok(made)
}

/// What the kinds of packages are made of.
struct Work<'a> {
    /// The table, with stripped programs and libraries.
    files: Vec<File>,
    /// What was taken off them.
    symbols: Symbols,
    /// For whatever need not last.
    dir: &'a Path,
    /// Where packages go.
    out: &'a Path,
    /// The time that all of it has, in seconds since 1970: the same sources are the same packages.
    epoch: String,
}

impl Work<'_> {
    fn stripped(mut self) -> Result<Self> {
        self.symbols = Symbols::split(&mut self.files, self.dir)?;
        Ok(self)
    }

    /// A command that knows the time.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .env("LC_ALL", "C");
        command
    }

    /// An empty directory.
    fn fresh(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
        Ok(dir)
    }

    /// Compresses files as Debian's policy and others want manual pages and changes.
    fn gzip(&self, files: &[PathBuf]) -> Result<()> {
        match files {
            [] => Ok(()),
            files => done(
                self.command("gzip")
                    .args(["-9", "-n", "--force", "--"])
                    .args(files),
            ),
        }
    }
}

/// The time of the last commit, unless `SOURCE_DATE_EPOCH` says another.
fn epoch() -> Result<String> {
    if let Ok(epoch) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"])
        .current_dir(build::workspace());
    let said = output_of(&mut git).context("no time of the last commit: set SOURCE_DATE_EPOCH")?;
    Ok(said.trim().to_owned())
}

/// Who publishes: Debian's variables for it, or the project without an address.
fn maintainer() -> (String, String) {
    let of = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    (
        of("DEBFULLNAME", "The ferroce developers"),
        of("DEBEMAIL", "ferroce@ferroce.invalid"),
    )
}

/// Everybody may read what is below a directory and enter its directories; files keep who may
/// execute them.
fn readable(dir: &Path) -> Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            readable(&entry.path())?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    }
    fs::write(path, text).with_context(|| format!("{}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o644))?;
    Ok(())
}
