//! `ferroce system status`.

use std::env;
use std::process::ExitCode;

use ferroce_control::{Client, ControlError};

use super::manifest::{Made, Manifest};
use super::place::{SYSFS, in_the_way};
use super::start;
use crate::error::Error;

pub(super) fn status() -> Result<ExitCode, Error> {
    let Some(manifest) = Manifest::read()? else {
        println!("the machine has no device of ferroce's (`ferroce system enable`, as root)");
        return Ok(ExitCode::FAILURE);
    };

    let mut well = true;
    let mut bad = |words: &str| {
        println!("bad: {words}");
        well = false;
    };

    match manifest.group.as_str() {
        "everyone" => println!("enabled, for all users of this machine"),
        group => println!("enabled, for root and the members of {group}"),
    }
    for made in &manifest.made {
        let Made::File(path, _) = made else { continue };
        if !path.exists() {
            bad(&format!(
                "{} has gone: disable and enable again",
                path.display()
            ));
        }
    }

    match Client::connect(&start::runtime()).and_then(|mut client| client.status()) {
        Ok(status) => {
            let addrs: Vec<_> = status.gids.iter().map(|gid| gid.addr.to_string()).collect();
            println!("{} is up at {}", status.device.name, addrs.join(", "));
        }
        Err(ControlError::NotRunning { .. }) => bad(match manifest.systemd {
            true => "the daemon is not running: `systemctl start ferroced.service`",
            false => "the daemon is not running: `ferroce system start`, as root",
        }),
        Err(error) => bad(&error.to_string()),
    }

    if let Some(why) = in_the_way() {
        bad(why);
    }
    match env::var("SYSFS_PATH") {
        Ok(path) if path == SYSFS => {}
        Ok(path) => bad(&format!("SYSFS_PATH is {path} here, not {SYSFS}")),
        Err(_) => bad(&format!(
            "SYSFS_PATH is not set here: log in again, or `export SYSFS_PATH={SYSFS}`"
        )),
    }

    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
