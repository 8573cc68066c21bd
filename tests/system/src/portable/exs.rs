//! The libraries that programs are linked with, for every distribution. libexs is the one part of
//! the product that is linked with rdma-core's libraries, whose names and versions of symbols are
//! those of the installed ones.
//!
//! Zig has the C library's headers and looks at none of this machine's, which are of its own glibc.
//! So it is shown rdma-core's alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{GLIBC, Target, check, results, tools, zigbuild};
use crate::build;
use crate::package::command::output_of;

/// What it is linked with.
const NEEDS: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];
/// The directories of rdma-core's headers.
const HEADERS: [&str; 2] = ["infiniband", "rdma"];
const INCLUDE: &str = "/usr/include";

/// Builds and checks it; answers the directory that holds `libexs.so.1`.
pub(crate) fn exs(target: Target) -> Result<PathBuf> {
    println!("xtask: building libexs for {}", target.asked());
    let headers = headers()?;
    let mut command = zigbuild(target)?;
    let flags = format!("CFLAGS_{}", target.name().replace('-', "_"));
    command
        .args(["--release", "--package", build::EXS.package])
        .env(flags, format!("-isystem {}", headers.display()));
    let status = command.status().context("cargo zigbuild")?;
    if !status.success() {
        bail!("cargo zigbuild failed: {status}");
    }

    let dir = results(target)?;
    let library = dir.join(build::EXS.soname);
    let mut link = linker(target)?;
    link.args(build::EXS.link(&dir.join(build::EXS.archive), &library))
        .args(stock()?)
        .args(["-lunwind", "-lpthread", "-ldl", "-lm"]);
    output_of(&mut link)?;
    check(target, &library, &NEEDS)?;
    Ok(dir)
}

/// Builds and checks libferroce, which is linked with nothing of rdma-core's; answers the directory
/// that holds `libferroce.so.1`.
pub(crate) fn direct(target: Target) -> Result<PathBuf> {
    println!("xtask: building libferroce for {}", target.asked());
    let mut command = zigbuild(target)?;
    command.args(["--release", "--package", build::DIRECT.package]);
    let status = command.status().context("cargo zigbuild")?;
    if !status.success() {
        bail!("cargo zigbuild failed: {status}");
    }

    let dir = results(target)?;
    let library = dir.join(build::DIRECT.soname);
    let mut link = linker(target)?;
    link.args(build::DIRECT.link(&dir.join(build::DIRECT.archive), &library))
        .args(["-lunwind", "-lpthread", "-ldl", "-lm"]);
    output_of(&mut link)?;
    check(target, &library, &[])?;
    Ok(dir)
}

/// Zig as the C compiler of the target.
fn linker(target: Target) -> Result<Command> {
    let (major, minor) = GLIBC;
    let name = target.name().replace("-unknown", "");
    let mut zig = Command::new(tools()?.join("ziglang/zig"));
    zig.args(["cc", "-target", &format!("{name}.{major}.{minor}")]);
    Ok(zig)
}

/// A directory with rdma-core's headers and no others.
fn headers() -> Result<PathBuf> {
    let dir = build::scratch("headers")?;
    for name in HEADERS {
        let link = dir.join(name);
        if !link.exists() {
            let from = Path::new(INCLUDE).join(name);
            let _ = fs::remove_file(&link);
            symlink(from, &link).with_context(|| format!("{}", link.display()))?;
        }
    }
    Ok(dir)
}

/// rdma-core's libraries, where the compiler finds them.
fn stock() -> Result<Vec<PathBuf>> {
    let found = |name: &&str| {
        let mut ask = Command::new("cc");
        let said = output_of(ask.arg(format!("--print-file-name={name}")))?;
        let path = PathBuf::from(said.trim());
        match path.is_absolute() {
            true => Ok(path),
            false => bail!("no {name}: install libibverbs1 and librdmacm1"),
        }
    };
    NEEDS.iter().map(found).collect()
}
