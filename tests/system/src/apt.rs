//! Debian packages, installed or only unpacked: what apt-get and dpkg-deb do for the commands.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::packages::which;

/// Says what it installs, and does.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    println!(
        "xtask: installing the Debian packages that are missing: {}",
        packages.join(" ")
    );

    if which("apt-get").is_none() {
        bail!(
            "this is not a Debian system; please install: {}",
            packages.join(" ")
        );
    }

    if get(packages).is_err() {
        // The package lists of a fresh machine may be absent or old.
        apt(&["update", "-qq"])?;
        get(packages)?;
    }

    Ok(())
}

/// Fetches a package without installing it and unpacks its files below a directory.
pub(crate) fn fetch(package: &str, to: &Path) -> Result<()> {
    println!("xtask: fetching the Debian package {package} for files that are not installed");
    let download = || -> Result<()> {
        let status = Command::new("apt-get")
            .args(["download", "-qq", package])
            .current_dir(to)
            .stdout(Stdio::null())
            .status()
            .context("apt-get download")?;
        if !status.success() {
            bail!("apt-get download {package} failed: {status}");
        }
        Ok(())
    };

    if download().is_err() {
        apt(&["update", "-qq"])?;
        download()?;
    }

    let archive = fs::read_dir(to)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get download {package} left no package"))?;

    let status = Command::new("dpkg-deb")
        .arg("-x")
        .arg(&archive)
        .arg(to)
        .status()
        .context("dpkg-deb")?;

    if status.success() {
        Ok(())
    } else {
        bail!("dpkg-deb -x {}: {status}", archive.display())
    }
}

fn get(packages: &[&str]) -> Result<()> {
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    apt(&arguments)
}

/// For how long apt-get has been at it, on a terminal and nowhere else.
fn progress(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} apt-get {msg} {elapsed_precise}");
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    let bar = match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn apt(arguments: &[&str]) -> Result<()> {
    let root = rustix::process::geteuid().is_root();
    if !root {
        // The password is asked for before there is a bar that would be drawn over the question.
        let _ = Command::new("sudo").arg("-v").status();
    }
    let bar = progress(arguments[0]);
    let mut command = if root {
        Command::new("env")
    } else {
        if which("sudo").is_none() {
            bail!(
                "neither root nor sudo here; as root: apt-get {}",
                arguments.join(" ")
            );
        }
        let mut sudo = Command::new("sudo");
        sudo.arg("env");
        sudo
    };

    command
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
        // Somebody else may be installing: he is waited for, not run into.
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .stdout(Stdio::null());

    let status = command.status().context("apt-get");
    bar.finish_and_clear();
    let status = status?;
    if status.success() {
        Ok(())
    } else {
        bail!("apt-get {} failed: {status}", arguments.join(" "))
    }
}
