//! `cargo xtask install --prefix DIR`: programs to DIR/bin, libraries under their final names to
//! DIR/lib/ferroce, and the EXS library with header, manual pages and pkg-config file to their
//! usual places; Valgrind's suppressions to DIR/share/ferroce.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ferroce_cabi::pabi;

use crate::build;
use crate::packages;

/// Builds and copies.
pub fn run(prefix: &Path) -> Result<()> {
    packages::ensure(packages::EXS)?;
    let from = build::product()?;
    let mut installed = copy(&from, prefix)?;
    installed.push(copy_data(prefix)?);
    installed.extend(copy_exs(&build::exs()?, prefix)?);
    for path in installed {
        println!("{}", path.display());
    }
    Ok(())
}

/// What Valgrind need not say of programs over ferroce, in the workspace.
pub const SUPPRESSIONS: &str = "rdma-core-plugin/valgrind.supp";

/// Copies what is built in `from`; answers what there is now below the prefix.
pub fn copy(from: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    let bin = prefix.join("bin");
    let lib = prefix.join("lib/ferroce");
    let programs = build::PROGRAMS.iter().map(|name| (*name, &bin, *name));
    let libraries = build::LIBRARIES
        .iter()
        .map(|(built, name)| (*built, &lib, *name));
    let placed = programs
        .chain(libraries)
        .map(|(built, dir, name)| place(&from.join(built), dir, name));
    let drivers = pabi::numbers().map(|number| {
        let name = pabi::driver_file("libferroce", number);
        link(build::DRIVER, &lib, &name)
    });
    placed
        .chain(drivers)
        .chain(links_for_containers(&lib))
        .collect()
}

/// What glibc puts in the place of `$LIB` in a path, distribution by distribution.
const GLIBC_LIB: [&str; 4] = ["lib", "lib64", "x86_64-linux-gnu", "aarch64-linux-gnu"];
/// Where the libraries for musl are, below those for glibc.
pub const MUSL: &str = "musl";
/// What musl, which expands nothing, makes of `$LIB`.
const MUSL_LIB: &str = "$LIB";

/// Links by which one path in `LD_PRELOAD`, `…/$LIB/libferroce-shim.so`, leads the dynamic linker
/// of either C library to its own libraries: a container may have any. Those for musl need not be
/// there; then its dynamic linker finds nothing and goes on.
fn links_for_containers(lib: &Path) -> impl Iterator<Item = Result<PathBuf>> {
    let glibc = GLIBC_LIB.into_iter().map(|name| (".", name));
    glibc
        .chain([(MUSL, MUSL_LIB)])
        .map(move |(to, name)| link(to, lib, name))
}

/// Copies the libraries for musl, as `cargo xtask portable` has put them below `from`, to where
/// containers with musl find them.
pub fn copy_musl(from: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    let (from, lib) = (
        from.join("lib/ferroce"),
        prefix.join("lib/ferroce").join(MUSL),
    );
    let libraries = build::LIBRARIES
        .iter()
        .map(|(_, name)| place(&from.join(name), &lib, name));
    let drivers = pabi::numbers().map(|number| {
        let name = pabi::driver_file("libferroce", number);
        link(build::DRIVER, &lib, &name)
    });
    libraries.chain(drivers).collect()
}

/// Copies what is no program or library and belongs to them all the same.
pub fn copy_data(prefix: &Path) -> Result<PathBuf> {
    let from = build::workspace().join(SUPPRESSIONS);
    place(&from, &prefix.join("share/ferroce"), "valgrind.supp")
}

/// Copies the EXS library that is built in `from`, and what belongs to it; answers what there is
/// now below the prefix.
pub fn copy_exs(from: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    let sources = build::workspace().join("exs");
    let lib = prefix.join("lib");
    let real = format!("libexs.so.{VERSION}");
    let mut installed = vec![
        place(&from.join(build::EXS_SONAME), &lib, &real)?,
        // As the dynamic linker asks for it, and as the compiler does.
        link(&real, &lib, build::EXS_SONAME)?,
        link(build::EXS_SONAME, &lib, "libexs.so")?,
        place(
            &sources.join("include/exs.h"),
            &prefix.join("include"),
            "exs.h",
        )?,
    ];

    let template = fs::read_to_string(sources.join("exs.pc.in")).context("exs.pc.in")?;
    let prefix_text = prefix
        .to_str()
        .context("the prefix must be UTF-8 for pkg-config")?;
    let text = template
        .replace("@PREFIX@", prefix_text)
        .replace("@VERSION@", VERSION);
    installed.push(write(&text, &lib.join("pkgconfig"), "exs.pc")?);

    for page in fs::read_dir(sources.join("man")).context("exs/man")? {
        let page = page?.path();
        let name = page.file_name().and_then(|name| name.to_str());
        let (name, section) = name
            .and_then(|name| Some((name, name.rsplit_once('.')?.1)))
            .with_context(|| format!("{}: no section", page.display()))?;
        let dir = prefix.join(format!("share/man/man{section}"));
        installed.push(place(&page, &dir, name)?);
    }

    Ok(installed)
}

/// Writes beside the target and renames.
fn write(text: &str, dir: &Path, name: &str) -> Result<PathBuf> {
    let fresh = dir.join(format!(".{name}.new"));
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    fs::write(&fresh, text).with_context(|| format!("{}", fresh.display()))?;
    renamed(&fresh, dir, name)
}

fn link(to: &str, dir: &Path, name: &str) -> Result<PathBuf> {
    let fresh = dir.join(format!(".{name}.new"));
    let _ = fs::remove_file(&fresh);
    symlink(to, &fresh).with_context(|| format!("{}", fresh.display()))?;
    renamed(&fresh, dir, name)
}

/// Copies beside the target and renames, so that a running program or mapped library stays whole.
fn place(from: &Path, dir: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    let fresh = dir.join(format!(".{name}.new"));
    fs::copy(from, &fresh).with_context(|| format!("{} to {}", from.display(), fresh.display()))?;
    renamed(&fresh, dir, name)
}

fn renamed(fresh: &Path, dir: &Path, name: &str) -> Result<PathBuf> {
    let target = dir.join(name);
    fs::rename(fresh, &target).with_context(|| format!("{}", target.display()))?;
    Ok(target)
}
