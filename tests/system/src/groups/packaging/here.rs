//! On this machine: in directories made for it, by a user's means.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;

use crate::harness::case::{Ending, Stop, expect};
use crate::lab::Lab;
use crate::packages::{self, PYTHON};

use super::named;
use super::runs::{LIST, User, said, same};

/// What every pip is told.
pub(super) const PIP: &[&str] = &["-m", "pip", "--no-cache-dir", "--disable-pip-version-check"];

/// Somewhere to install to, and a home.
pub(super) struct Place {
    dir: TempDir,
}

impl Place {
    pub(super) fn new(lab: &mut Lab) -> Result<Place, Stop> {
        // The device is to be at 127.0.0.1.
        lab.vacate();
        let dir = tempfile::Builder::new()
            .prefix("ferroce-package-")
            .tempdir();
        Ok(Place {
            dir: dir.map_err(anyhow::Error::from)?,
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The start of a command that knows nothing of the caller's own ferroce and Python.
    fn command(&self) -> Command {
        let mut command = Command::new("env");
        command
            .args([
                "-u",
                "XDG_RUNTIME_DIR",
                "-u",
                "XDG_CONFIG_HOME",
                "-u",
                "PYTHONUSERBASE",
            ])
            .arg(format!("HOME={}", self.path("home").display()))
            .arg(format!(
                "FERROCE_RUNTIME_DIR={}",
                self.path("run").display()
            ));
        command
    }

    /// ib_write_bw by the `ferroce` at a path.
    fn table(&self, lab: &mut Lab, ferroce: &Path, since: Instant) -> Ending {
        let runtime = format!("FERROCE_RUNTIME_DIR={}", self.path("run").display());
        let command = || {
            let mut command = self.command();
            // What names the runtime directory is taken out of a user's environment otherwise.
            command.args(["env", &runtime]);
            command
        };
        let user = User {
            command: &command,
            ferroce: &ferroce.to_string_lossy(),
        };
        user.table(lab, since)
    }

    fn files(&self, lab: &mut Lab, below: &str) -> Result<String, Stop> {
        let mut list = Command::new("sh");
        list.args(["-c", LIST]).current_dir(self.path(below));
        let list = said(lab, list)?;
        let kept = list.lines().filter(|line| !line.contains("__pycache__"));
        Ok(kept.map(|line| format!("{line}\n")).collect())
    }

    pub(super) fn python(&self, lab: &mut Lab, python: &Path, words: &[&str]) -> Ending {
        self.said(lab, python, words).map(drop)
    }

    pub(super) fn said(
        &self,
        lab: &mut Lab,
        python: &Path,
        words: &[&str],
    ) -> Result<String, Stop> {
        let mut command = self.command();
        command.arg(python).args(words);
        said(lab, command)
    }
}

/// In an environment, which is then moved and called by a link; and as a user's own.
pub(super) fn wheel(lab: &mut Lab, packages: &Path) -> Ending {
    packages::ensure(packages::PYTHON_VENV)?;
    let place = Place::new(lab)?;
    let wheel = named(packages, "ferroce-", ".whl")?.remove(0);
    let wheel = wheel.to_string_lossy();
    let venv = place.path("venv");
    place.python(
        lab,
        PYTHON.as_ref(),
        &["-m", "venv", &venv.to_string_lossy()],
    )?;
    let before = place.files(lab, "venv")?;

    let since = Instant::now();
    let pip = |words: &[&'static str]| [PIP, words].concat();
    let python = venv.join("bin/python");
    let mut install = pip(&["install", "--no-index"]);
    install.push(&wheel);
    place.python(lab, &python, &install)?;
    place.table(lab, &venv.join("bin/ferroce"), since)?;
    place.python(lab, &python, &pip(&["uninstall", "--yes", "ferroce"]))?;
    same(&before, &place.files(lab, "venv")?)?;

    // As pipx does: elsewhere, by a link.
    place.python(lab, &python, &install)?;
    let failed = anyhow::Error::from;
    let moved = place.path("moved");
    fs::rename(&venv, &moved).map_err(failed)?;
    let link = place.path("ferroce");
    symlink(moved.join("bin/ferroce"), &link).map_err(anyhow::Error::from)?;
    place.table(lab, &link, Instant::now())?;

    let mut own = pip(&["install", "--user", "--break-system-packages", "--no-index"]);
    own.retain(|word| !word.contains("break") || breaks());
    own.push(&wheel);
    place.python(lab, PYTHON.as_ref(), &own)?;
    place.table(lab, &place.path("home/.local/bin/ferroce"), Instant::now())
}

/// Whether this machine's Python is one that pip leaves alone unless it is told to break it.
fn breaks() -> bool {
    let marked = |entry: fs::DirEntry| entry.path().join("EXTERNALLY-MANAGED").exists();
    fs::read_dir("/usr/lib").is_ok_and(|dirs| dirs.flatten().any(marked))
}

/// Unpacked anywhere.
pub(super) fn tarball(lab: &mut Lab, packages: &Path) -> Ending {
    let place = Place::new(lab)?;
    let archive = named(packages, "ferroce-", "-linux-gnu.tar.xz")?.remove(0);
    let since = Instant::now();
    let mut unpack = Command::new("tar");
    unpack
        .arg("-C")
        .arg(place.dir.path())
        .arg("-xf")
        .arg(&archive);
    said(lab, unpack)?;

    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let root = place.path(name.trim_end_matches(".tar.xz"));
    place.table(lab, &root.join("bin/ferroce"), since)?;
    config_file(lab, &root)
}

/// Below a prefix that is named from where one is.
pub(super) fn prefix(lab: &mut Lab) -> Ending {
    let place = Place::new(lab)?;
    let mut install = Command::new(env::current_exe().map_err(anyhow::Error::from)?);
    install
        .args(["install", "--prefix", "./rel"])
        .current_dir(place.dir.path());
    said(lab, install)?;

    let root = place.path("rel");
    for file in [
        "share/man/man1/ferroce-run.1",
        "share/man/man7/ferroce.7",
        "share/bash-completion/completions/ferroce",
        "share/zsh/site-functions/_ferroce",
        "share/fish/vendor_completions.d/ferroce.fish",
    ] {
        expect(root.join(file).exists(), || {
            format!("{file} is not installed")
        })?;
    }
    place.table(lab, &root.join("bin/ferroce"), Instant::now())?;
    config_file(lab, &root)
}

/// pkg-config finds libexs there, from everywhere.
fn config_file(lab: &mut Lab, root: &Path) -> Ending {
    let mut ask = Command::new("pkg-config");
    ask.args(["--variable=libdir", "exs"])
        .env("PKG_CONFIG_PATH", root.join("lib/pkgconfig"))
        .current_dir("/");
    let libdir = said(lab, ask)?;
    let library = Path::new(libdir.trim()).join("libexs.so");
    expect(library.exists() && library.starts_with("/"), || {
        format!("pkg-config says that libexs is in {libdir:?}")
    })
}

/// By rpm, below a root of its own, and run from there; what it needs of rpm's own database is not
/// on a Debian machine.
pub(super) fn rpm(lab: &mut Lab, packages: &Path) -> Ending {
    if !rustix::process::geteuid().is_root() {
        return Err(Stop::Skip(
            "rpm enters a root of its own as root only".to_owned(),
        ));
    }
    let place = Place::new(lab)?;
    let root = place.path("root");
    fs::create_dir(&root).map_err(anyhow::Error::from)?;
    let rpm = |words: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg(format!("--root={}", root.display())).args(words);
        rpm
    };
    said(lab, rpm(&["--initdb"]))?;
    let before = place.files(lab, "root")?;

    let since = Instant::now();
    let files = named(packages, "", ".rpm")?;
    let mut install = rpm(&["--install", "--nodeps", "--noscripts"]);
    install.args(&files);
    said(lab, install)?;
    place.table(lab, &root.join("usr/bin/ferroce"), since)?;

    let mut needs = Command::new("rpm");
    needs.args(["-qp", "--requires"]).args(&files);
    let needs = said(lab, needs)?;
    for wanted in [
        "libc.so.6(GLIBC_2.",
        "libibverbs.so.1",
        "ferroce(x86-64) = ",
    ] {
        expect(needs.contains(wanted), || {
            format!("none needs {wanted}: {needs}")
        })?;
    }

    let names = said(lab, rpm(&["-qa"]))?;
    let mut erase = rpm(&["--erase", "--nodeps", "--noscripts"]);
    erase.args(names.lines());
    said(lab, erase)?;
    let own = |list: &str| -> String {
        let kept = list.lines().filter(|line| !line.contains(" var/lib/rpm"));
        kept.map(|line| format!("{line}\n")).collect()
    };
    // Directories of the system's, which no package of ours owns, were not there before.
    let left = place.files(lab, "root")?;
    let left: Vec<&str> = left.lines().filter(|line| !line.starts_with('d')).collect();
    let before: Vec<&str> = before
        .lines()
        .filter(|line| !line.starts_with('d'))
        .collect();
    let text = |lines: &[&str]| format!("installed\n{}", own(&lines.join("\n")));
    same(&text(&before), &text(&left))
}
