//! `ferroce system disable`, also after half an `enable`.

use std::process::ExitCode;

use super::manifest::{Made, Manifest};
use super::{files, service, start};
use crate::error::Error;

pub(super) fn disable() -> Result<ExitCode, Error> {
    let Some(manifest) = Manifest::read()? else {
        return Err(Error::System(
            "there is nothing to undo: the machine has no device of `ferroce system enable`"
                .to_owned(),
        ));
    };
    undo(&manifest)?;
    Ok(ExitCode::SUCCESS)
}

/// Stops the device and removes what was made, the last first.
pub(super) fn undo(manifest: &Manifest) -> Result<(), Error> {
    let is_unit =
        |made: &Made| matches!(made, Made::File(path, _) if path.ends_with(service::UNIT_FILE));
    let systemd = service::runs() && manifest.made.iter().any(is_unit);
    if systemd && let Err(error) = service::stop() {
        eprintln!("ferroce: {error}");
    }

    start::take_down()?;
    for made in manifest.made.iter().rev() {
        if let Some(left) = files::unmake(made)? {
            eprintln!("ferroce: {left}");
        }
    }
    if systemd {
        service::reload()?;
    }
    Manifest::remove()
}
