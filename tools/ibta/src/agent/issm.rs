//! The files `issmN`, which a subnet manager keeps open as long as it works: the kernel's (or
//! ferroced's) port then says in its capabilities that it has one.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::library::{Verb, VerbsError};

/// Where the kernel lists them.
const CLASS: &str = "/sys/class/infiniband_mad";
/// Where they are.
const DEVICES: &str = "/dev/infiniband";

/// Opens that of a device's port. Does not wait for another who has it open: that is `EAGAIN`.
pub(super) fn open(device: &str, port: u8) -> Verb<File> {
    let call = "opening issm";
    let missing = VerbsError {
        call,
        errno: libc::ENOENT,
    };
    let entries = fs::read_dir(CLASS).map_err(|_| missing)?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let name = names
        .filter(|name| name.to_string_lossy().starts_with("issm"))
        .find(|name| {
            let is = |file: &str, value: &str| {
                let text = fs::read_to_string(Path::new(CLASS).join(name).join(file));
                text.is_ok_and(|text| text.trim() == value)
            };
            is("ibdev", device) && is("port", &port.to_string())
        })
        .ok_or(missing)?;

    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(Path::new(DEVICES).join(name))
        .map_err(|error| VerbsError {
            call,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        })
}
