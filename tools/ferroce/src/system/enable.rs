//! `ferroce system enable`.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use ferroce_control::Client;

use super::arguments::Enable;
use super::manifest::Manifest;
use super::place::{RUNTIME, SYSFS, in_the_way};
use super::{disable, files, links, service, start};
use crate::error::Error;
use crate::libraries;

/// Where libibverbs finds the names of drivers.
const DRIVER_FILE: &str = "/etc/libibverbs.d/ferroce.driver";
/// What programs below a user's systemd find in their environment.
const USERS_FILE: &str = "/etc/environment.d/60-ferroce.conf";
/// What PAM gives to whoever logs in, by su, sshd, cron and others.
const PAM_FILE: &str = "/etc/environment";

pub(super) fn enable(enable: &Enable) -> Result<ExitCode, Error> {
    if Manifest::read()?.is_some() {
        return Err(Error::System(format!(
            "it has been enabled, wholly or in part ({}): `ferroce system disable` undoes that",
            Manifest::path().display()
        )));
    }
    if let Some(why) = in_the_way() {
        return Err(Error::System(why.to_owned()));
    }
    if Client::connect(&start::runtime()).is_ok() {
        return Err(Error::System(format!(
            "a device of root's own is at {RUNTIME}: `ferroce down` ends it, and the machine's takes its place"
        )));
    }
    links::check()?;
    know_group(&enable.group)?;

    let program = env::current_exe().map_err(Error::io("finding this program"))?;
    let driver = libraries::driver()?;
    files::is_roots(&program)?;
    files::is_roots(&program.with_file_name("ferroced"))?;
    for file in &driver.files {
        files::is_roots(file)?;
    }

    let mut manifest = Manifest {
        group: enable.group.clone(),
        addr: enable.addr.clone(),
        netdev: enable.netdev.clone(),
        systemd: service::runs() && !enable.no_systemd,
        made: Vec::new(),
    };
    let made = make(&mut manifest, &program, &driver.name).and_then(|()| match manifest.systemd {
        true => service::start(),
        false => start::bring_up(&manifest),
    });
    if let Err(error) = made {
        disable::undo(&manifest)?;
        return Err(error);
    }

    tell(&manifest, &program);
    Ok(ExitCode::SUCCESS)
}

/// Makes all files.
fn make(manifest: &mut Manifest, program: &Path, driver: &Path) -> Result<(), Error> {
    manifest.write()?;
    let text = format!(
        "# Made by `ferroce system enable`.\ndriver {}\n",
        driver.display()
    );
    files::make(manifest, Path::new(DRIVER_FILE), &text)?;

    let variable = format!("SYSFS_PATH={SYSFS}\n");
    let marked = format!("# Made by `ferroce system enable`.\n{variable}");
    files::make(manifest, Path::new(USERS_FILE), &marked)?;
    files::append(manifest, Path::new(PAM_FILE), &variable)?;
    if manifest.systemd {
        files::make(
            manifest,
            Path::new(service::UNIT_FILE),
            &service::unit(program),
        )?;
        files::make(
            manifest,
            Path::new(service::MANAGER_FILE),
            &service::manager(),
        )?;
    }
    Ok(())
}

/// Refuses a group that there is not, before anything is made.
fn know_group(name: &str) -> Result<(), Error> {
    if name == "everyone" {
        return Ok(());
    }
    let known = Command::new("getent").args(["group", name]).output();
    match known.is_ok_and(|output| output.status.success()) {
        true => Ok(()),
        false => Err(Error::System(format!(
            "there is no group {name}: make it (`groupadd --system {name}`), or name another with --group; `--group everyone` is all users"
        ))),
    }
}

fn tell(manifest: &Manifest, program: &Path) {
    match manifest.group.as_str() {
        "everyone" => println!("the machine has a device, for all its users"),
        group => println!(
            "the machine has a device, for root and the members of {group} (`usermod --append --groups {group} NAME` makes NAME one)"
        ),
    }
    println!(
        "who logs in from now on sees it; an open shell does after: export SYSFS_PATH={SYSFS}"
    );
    if !manifest.systemd {
        println!(
            "there is no service: for it to be there after the next start of the machine, put into /etc/rc.local: {} system start",
            program.display()
        );
    }
    println!(
        "its log: {}",
        match manifest.systemd {
            true => "journalctl -u ferroced.service".to_owned(),
            false => format!("{RUNTIME}/ferroced.log"),
        }
    );
}
