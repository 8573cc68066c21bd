//! What packages say of themselves, to who looks at them and does not install them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::build;
use crate::harness::case::{Ending, Stop, expect};
use crate::lab::Lab;
use crate::package::{self, Format};
use crate::packages::{self, PYTHON};

use super::named;
use super::runs::said;

/// Who knows what a wheel's name promises, from PyPI, and what it needs of there.
const AUDITWHEEL: &[&str] = &["auditwheel==6.8.2", "pyelftools==0.33", "packaging==26.0"];

/// The wheel runs where its name says.
pub(super) fn auditwheel(lab: &mut Lab, packages: &Path) -> Ending {
    packages::ensure(packages::PORTABLE)?;
    let dir = build::scratch("auditwheel")?;
    if !dir.join("auditwheel").exists() {
        let mut pip = Command::new(PYTHON);
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
            .arg(&dir)
            .args(["--disable-pip-version-check", "--root-user-action=ignore"])
            .args(AUDITWHEEL);
        said(lab, pip)?;
    }

    let mut show = Command::new(PYTHON);
    show.args(["-m", "auditwheel", "show"])
        .args(named(packages, "ferroce-", ".whl")?)
        .env("PYTHONPATH", &dir);
    let said = said(lab, show)?;
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let tag = "consistent with the following platform tag: \"manylinux_2_17_x86_64\"";
    expect(words.contains(tag), || format!("auditwheel says {words}"))
}

/// No package breaks Debian's rules.
pub(super) fn lintian(lab: &mut Lab, packages: &Path) -> Ending {
    packages::ensure(packages::LINTIAN)?;
    let mut lintian = Command::new("lintian");
    lintian
        .args([
            "--allow-root",
            "--fail-on",
            "error",
            "--no-tag-display-limit",
        ])
        .args(named(packages, "", ".deb")?);
    said(lab, lintian).map(drop)
}

/// Every program and library that is installed has its symbols where debuggers look for them.
pub(super) fn symbols(lab: &mut Lab, packages: &Path) -> Ending {
    let root = tempfile::tempdir().map_err(anyhow::Error::from)?;
    for package in named(packages, "", ".deb")? {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(package).arg(root.path());
        said(lab, unpack)?;
    }

    for file in [
        "bin/ferroce",
        "bin/ferroced",
        "bin/ferroce-ibta",
        "lib/x86_64-linux-gnu/ferroce/libferroce-provider.so",
        "lib/x86_64-linux-gnu/ferroce/libferroce-shim.so",
        "lib/x86_64-linux-gnu/libexs.so.1",
        "lib/x86_64-linux-gnu/libferroce.so.1",
    ] {
        let path = root.path().join("usr").join(file);
        let read = |options: &str, path: &Path| {
            let mut readelf = Command::new("readelf");
            readelf.arg(options).arg(path);
            readelf
        };
        let stripped = said(lab, read("-nSW", &path))?;
        expect(!stripped.contains(".debug_line"), || {
            format!("{file} is not stripped")
        })?;
        let id = stripped
            .lines()
            .find_map(|line| line.split_once("Build ID: "));
        let id = id
            .ok_or_else(|| Stop::fail(format!("{file} has no build id")))?
            .1
            .trim();
        let (first, rest) = id.split_at(2);
        let place = format!("usr/lib/debug/.build-id/{first}/{rest}.debug");
        let debug = said(lab, read("-nSW", &root.path().join(&place)))?;
        expect(debug.contains(".debug_line") && debug.contains(id), || {
            format!("{place} has not the symbols of {file}")
        })?;
    }
    Ok(())
}

/// The same build is the same packages, byte by byte.
pub(super) fn again(_lab: &mut Lab, packages: &Path) -> Ending {
    let out = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let formats = [Format::Deb, Format::Wheel, Format::Tarball];
    for path in package::make(&package::portable()?, &formats, out.path())? {
        let name = path.file_name().unwrap_or_default();
        let read = |path: &Path| fs::read(path).map_err(anyhow::Error::from);
        let same = read(&path)? == read(&packages.join(name))?;
        expect(same, || {
            format!("{} is another each time", name.to_string_lossy())
        })?;
    }
    Ok(())
}
