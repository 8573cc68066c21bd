//! `ferroce system`: a device of the machine's, which all programs see without any word of
//! ferroce's in how they are started. Root enables it; what was made for that is written down, and
//! `disable` removes that and nothing else.

pub(crate) mod arguments;
mod disable;
mod enable;
mod files;
mod links;
mod manifest;
mod place;
mod service;
mod start;
mod status;

use std::path::Path;
use std::process::ExitCode;

use crate::error::Error;
use arguments::System;
use place::RUNTIME;

/// Carries it out.
pub(crate) fn system(what: &System, runtime_dir: Option<&Path>) -> Result<ExitCode, Error> {
    if let Some(dir) = runtime_dir.filter(|dir| *dir != Path::new(RUNTIME)) {
        return Err(Error::Usage(format!(
            "the machine's device is at {RUNTIME}, not at {}: leave out --runtime-dir",
            dir.display()
        )));
    }
    if !matches!(what, System::Status) && !rustix::process::geteuid().is_root() {
        return Err(Error::System(
            "only root can give the machine a device, or take it away; `ferroce run` and `ferroce up` need no root"
                .to_owned(),
        ));
    }

    // What is made here is for all to read.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    match what {
        System::Enable(enable) => enable::enable(enable),
        System::Disable => disable::disable(),
        System::Status => status::status(),
        System::Start(start) => start::start(start),
        System::Stop => start::stop(),
    }
}
