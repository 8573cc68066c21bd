//! The files under `/dev/infiniband`, for programs and libraries that look there: links to
//! `/dev/null`, as in the image. `/dev` is made anew at each start of the machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::files;
use crate::error::Error;

const DIRECTORY: &str = "/dev/infiniband";
const NAMES: [&str; 3] = ["uverbs0", "rdma_cm", "umad0"];
const TARGET: &str = "/dev/null";

fn paths() -> [PathBuf; 3] {
    NAMES.map(|name| Path::new(DIRECTORY).join(name))
}

fn is_ours(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target == Path::new(TARGET))
}

/// Refuses where there is a real device.
pub(super) fn check() -> Result<(), Error> {
    let real = paths();
    let real = real
        .iter()
        .find(|path| path.symlink_metadata().is_ok() && !is_ours(path));
    match real {
        None => Ok(()),
        Some(path) => Err(Error::System(format!(
            "{} is there already: the kernel has an RDMA device of its own here, beside which programs see ferroce's by `ferroce run`",
            path.display()
        ))),
    }
}

/// Makes those that are missing.
pub(super) fn make() -> Result<(), Error> {
    check()?;
    files::make_directory(DIRECTORY)?;
    for path in paths() {
        if !is_ours(&path) {
            symlink(TARGET, &path).map_err(Error::io(path.display().to_string()))?;
        }
    }
    Ok(())
}

/// Removes them, and the directory if nothing else is in it.
pub(super) fn remove() -> Result<(), Error> {
    for path in paths() {
        if is_ours(&path) {
            fs::remove_file(&path).map_err(Error::io(path.display().to_string()))?;
        }
    }
    files::remove_if_empty(DIRECTORY)
}
