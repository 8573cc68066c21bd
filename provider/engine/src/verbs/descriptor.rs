//! Descriptors that programs hand over.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use crate::error::{Error, Result};

/// Device and inode of an open file, which tell whether two descriptors are of one. `looking` is
/// what an error says was being done.
pub(crate) fn identify(fd: RawFd, looking: &'static str) -> Result<(u64, u64)> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` is a valid place for the result.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(Error::last_os(looking));
    }
    // SAFETY: the call succeeded and filled it in.
    let stat = unsafe { stat.assume_init() };
    Ok((stat.st_dev, stat.st_ino))
}
