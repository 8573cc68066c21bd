//! `cargo xtask portable`: one set of programs and libraries for every distribution with a glibc
//! that is not too old.
//!
//! A program that is linked with the machine's own glibc needs that one or a newer one. Here Zig
//! links, which has the symbol versions of every glibc, by way of cargo-zigbuild; both come from
//! PyPI, in fixed versions, and are kept outside the repository. What comes out is looked at: the
//! versions that the dynamic linker will ask for are in each file.

mod exs;

use std::env;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::build;
use crate::install;
use crate::package::command::output_of;
use crate::packages::{self, PYTHON};

pub(crate) use exs::{direct, exs};

/// The oldest glibc that the results run with: the oldest that Rust's own library supports. CentOS
/// 7 has it.
pub const GLIBC: (u32, u32) = (2, 17);

/// What is built for: an architecture and its C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// 64-bit x86, glibc
    #[value(name = "x86_64-unknown-linux-gnu")]
    X86_64,
    /// 64-bit ARM, glibc
    #[value(name = "aarch64-unknown-linux-gnu")]
    Aarch64,
    /// 64-bit x86, musl, linked dynamically as Alpine's programs are
    #[value(name = "x86_64-unknown-linux-musl")]
    X86_64Musl,
}

impl Target {
    /// As Rust names it.
    pub fn name(self) -> &'static str {
        match self {
            Target::X86_64 => "x86_64-unknown-linux-gnu",
            Target::Aarch64 => "aarch64-unknown-linux-gnu",
            Target::X86_64Musl => "x86_64-unknown-linux-musl",
        }
    }

    /// As cargo-zigbuild takes it: with the version of glibc.
    fn asked(self) -> String {
        let (major, minor) = GLIBC;
        match self {
            Target::X86_64Musl => self.name().to_owned(),
            _ => format!("{}.{major}.{minor}", self.name()),
        }
    }

    /// What the results may be linked with: what belongs to the C library.
    fn libraries(self) -> &'static [&'static str] {
        match self {
            Target::X86_64 => &[
                "ld-linux-x86-64.so.2",
                "libc.so.6",
                "libdl.so.2",
                "libm.so.6",
                "libpthread.so.0",
                "librt.so.1",
            ],
            Target::Aarch64 => &[
                "ld-linux-aarch64.so.1",
                "libc.so.6",
                "libdl.so.2",
                "libm.so.6",
                "libpthread.so.0",
                "librt.so.1",
            ],
            Target::X86_64Musl => &["libc.so", "libc.musl-x86_64.so.1"],
        }
    }

    /// What rustc must be told beyond the target.
    pub fn flags(self) -> &'static str {
        match self {
            // A static program could load no libibverbs. Rust must not ask for one, and Zig makes
            // one unless told otherwise.
            Target::X86_64Musl => "-C target-feature=-crt-static -C link-arg=-dynamic",
            // By which debuggers find the symbols of a file that has none any more.
            _ => "-C link-arg=-Wl,--build-id=sha1",
        }
    }

    /// Installs Rust's library for it, if it is missing and there is a rustup that can.
    pub fn ensure(self) -> Result<()> {
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", self.name()]);
        let dir = output_of(&mut rustc)?;
        if Path::new(dir.trim()).exists() {
            return Ok(());
        }
        println!("xtask: installing Rust's library for {}", self.name());
        let mut rustup = Command::new("rustup");
        rustup.args(["target", "add", self.name()]);
        output_of(&mut rustup).map(drop)
    }
}

/// What links, from PyPI.
const TOOLS: &[&str] = &["cargo-zigbuild==0.24.0", "ziglang==0.17.1"];

/// Builds, checks and copies; with `musl` also the libraries that containers of musl need.
pub fn run(target: Target, prefix: &Path, musl: bool) -> Result<()> {
    let mut installed = built_below(target, prefix)?;
    if musl {
        let beside = self::prefix(Target::X86_64Musl)?;
        installed.extend(install::copy_musl(&beside, prefix)?);
    }
    for path in installed {
        println!("{}", path.display());
    }
    if target != Target::X86_64Musl {
        let (major, minor) = GLIBC;
        println!("xtask: none of them needs more than glibc {major}.{minor}");
    }
    Ok(())
}

/// The same for tests: the prefix.
pub fn prefix(target: Target) -> Result<PathBuf> {
    let prefix = build::scratch("portable")?.join(target.name());
    built_below(target, &prefix)?;
    Ok(prefix)
}

fn built_below(target: Target, prefix: &Path) -> Result<Vec<PathBuf>> {
    let mut installed = install::copy(&product(target)?, prefix)?;
    installed.extend(install::copy_data(prefix)?);
    Ok(installed)
}

/// Builds programs and libraries, once, and checks them; answers the directory that holds them, as
/// cargo names them.
pub(crate) fn product(target: Target) -> Result<PathBuf> {
    static BUILT: Mutex<Vec<Target>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = results(target)?;
    if built.contains(&target) {
        return Ok(dir);
    }

    println!("xtask: building for {}", target.asked());
    let mut command = zigbuild(target)?;
    command.arg("--release");
    for name in build::PRODUCT {
        command.args(["--package", name]);
    }
    let status = command.status().context("cargo zigbuild")?;
    if !status.success() {
        bail!("cargo zigbuild failed: {status}");
    }

    let libraries = build::LIBRARIES.iter().map(|(built, _)| built);
    for name in build::PROGRAMS.iter().chain(libraries) {
        check(target, &dir.join(name), &[])?;
    }
    built.push(target);
    Ok(dir)
}

/// The newest glibc that a file needs.
pub(crate) fn newest_glibc(file: &Path) -> Result<(u32, u32)> {
    let wants = wanted(file)?;
    let newest = wants
        .versions
        .iter()
        .filter_map(|version| glibc(version))
        .max();
    newest.with_context(|| format!("{} needs no glibc", file.display()))
}

/// Builds the tests of some packages; answers their programs.
pub fn tests(target: Target, packages: &[&str]) -> Result<Vec<PathBuf>> {
    println!("xtask: building tests for {}", target.asked());
    let mut command = zigbuild(target)?;
    command.args(["--tests", "--profile", "unit", "--message-format", "json"]);
    for name in packages {
        command.args(["--package", name]);
    }
    let said = output_of(&mut command)?;
    let messages = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let programs: Vec<PathBuf> = messages
        .filter(|message: &serde_json::Value| message["profile"]["test"] == true)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect();

    match programs.is_empty() {
        true => bail!("cargo zigbuild tells of no test"),
        false => Ok(programs),
    }
}

fn zigbuild(target: Target) -> Result<Command> {
    packages::ensure(packages::PORTABLE)?;
    target.ensure()?;
    let tools = tools()?;
    let mut command = build::cargo();
    command.args(["zigbuild", "--locked", "--quiet", "--target"]);
    command.arg(target.asked());
    command.env("RUSTFLAGS", target.flags());

    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(iter::once(tools.join("bin")).chain(env::split_paths(&path)))?;
    command
        .env("PATH", path)
        .env("CARGO_ZIGBUILD_ZIG_PATH", tools.join("ziglang/zig"));
    Ok(command)
}

/// Where cargo puts what it builds for a target.
fn results(target: Target) -> Result<PathBuf> {
    let release = build::release_dir()?;
    let all = release.parent().context("no target directory")?;
    Ok(all.join(target.name()).join("release"))
}

/// The directory of cargo-zigbuild and Zig, filled if need be. Other versions are another
/// directory.
fn tools() -> Result<PathBuf> {
    let cache = build::cache()?;
    let dir = cache.join(TOOLS.join("-").replace("==", "-"));
    if dir.exists() {
        return Ok(dir);
    }

    println!("xtask: installing {} from PyPI", TOOLS.join(" and "));
    let fresh = tempfile::Builder::new()
        .prefix(".zig-")
        .tempdir_in(&cache)?;
    let packages = fresh.path().join("packages");
    let mut pip = Command::new(PYTHON);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&packages)
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .args(TOOLS);

    output_of(&mut pip)?;

    // Whoever comes second finds it there, and the same.
    if let Err(error) = fs::rename(&packages, &dir)
        && !dir.exists()
    {
        return Err(error).with_context(|| format!("{}", dir.display()));
    }

    Ok(dir)
}

/// Fails if the dynamic linker of an old distribution would refuse a file, which may need these
/// libraries beside the C library's.
fn check(target: Target, file: &Path, beside: &[&str]) -> Result<()> {
    let wants = wanted(file)?;
    let (major, minor) = GLIBC;
    let foreign = |version: &str| !beside.is_empty() && !version.starts_with("GLIBC_");
    for version in wants.versions.iter().filter(|version| !foreign(version)) {
        if glibc(version).is_none_or(|needed| needed > GLIBC) {
            bail!(
                "{} needs {version}, newer than glibc {major}.{minor}",
                file.display()
            );
        }
    }

    for library in wants.libraries.iter().map(String::as_str) {
        if !target.libraries().contains(&library) && !beside.contains(&library) {
            bail!(
                "{} needs {library}, which is not of the C library",
                file.display()
            );
        }
    }

    // A file that asks for nothing was not read.
    if wants.libraries.is_empty() || (wants.versions.is_empty() && target != Target::X86_64Musl) {
        bail!("readelf says nothing of what {} needs", file.display());
    }

    Ok(())
}

fn wanted(file: &Path) -> Result<Wants> {
    let mut readelf = Command::new("readelf");
    readelf.args(["-dVW"]).arg(file);
    Ok(wants(&output_of(&mut readelf)?))
}

/// What a file asks of the dynamic linker.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wants {
    libraries: Vec<String>,
    versions: Vec<String>,
}

/// Reads what `readelf -dVW` says: `(NEEDED) Shared library: [libc.so.6]` in the dynamic section,
/// and `Name: GLIBC_2.17` for each version that is needed.
fn wants(headers: &str) -> Wants {
    let mut wants = Wants::default();
    let mut needed = false;
    for line in headers.lines() {
        if line.starts_with("Version ") {
            needed = line.starts_with("Version needs ");
        }
        let after = |what: &str| Some(line.split_once(what)?.1);
        if let Some(library) = after("Shared library: [") {
            wants
                .libraries
                .push(library.trim_end_matches(']').to_owned());
        } else if let Some(version) = after(" Name: ").filter(|_| needed) {
            let name = version.split_whitespace().next().unwrap_or_default();
            wants.versions.push(name.to_owned());
        }
    }

    wants
}

/// The numbers of `GLIBC_2.17`, and of `GLIBC_2.2.5` the first two.
fn glibc(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: &str = "\
Dynamic section at offset 0xb4d60 contains 30 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libpthread.so.0]
 0x000000000000000e (SONAME)             Library soname: [libx.so.1]

Version definition section '.gnu.version_d' contains 1 entry:
  000000: Rev: 1  Flags: BASE  Index: 1  Cnt: 1  Name: X_1.0

Version needs section '.gnu.version_r' contains 1 entry:
 Addr: 0x0000000000001fd0  Offset: 0x00001fd0  Link: 4 (.dynstr)
  000000: Version: 1  File: libc.so.6  Cnt: 2
  0x0010:   Name: GLIBC_2.2.5  Flags: none  Version: 3
  0x0020:   Name: GLIBC_2.17  Flags: none  Version: 2
";

    #[test]
    fn what_a_file_asks_for_is_read() {
        let wants = wants(HEADERS);
        assert_eq!(wants.libraries, ["libc.so.6", "libpthread.so.0"]);
        assert_eq!(wants.versions, ["GLIBC_2.2.5", "GLIBC_2.17"]);
    }

    #[test]
    fn versions_are_numbers_and_not_words() {
        assert_eq!(glibc("GLIBC_2.2.5"), Some((2, 2)));
        assert!(glibc("GLIBC_2.4").unwrap() < glibc("GLIBC_2.17").unwrap());
        assert!(glibc("GLIBC_2.34").unwrap() > GLIBC);
        assert_eq!(glibc("GLIBC_PRIVATE"), None);
        assert_eq!(glibc("GCC_3.0"), None);
    }

    #[test]
    fn this_machines_own_programs_are_found_to_need_more() {
        let this = env::current_exe().unwrap();
        let wants = wanted(&this).unwrap();
        assert!(!wants.versions.is_empty() && !wants.libraries.is_empty());
        if newest_glibc(&this).unwrap() > GLIBC {
            assert!(check(Target::X86_64, &this, &[]).is_err());
        }
    }
}
