//! Completion channels, which libibverbs asks the kernel for, past the provider: the shim asks
//! here.

use crate::command_fd;
use crate::guard::quietly;
use crate::stand_in;
use ferroce_cabi::uverbs::{
    SHIM_HAS_EVENTS, SHIM_MAKE_CHANNELS, channel_closed, make_channel, shim_make_channels,
};
use libc::c_int;
use std::mem::transmute;
use std::os::fd::IntoRawFd;

/// Has the shim ask for channels, if there is one.
pub(crate) fn register() {
    let Some(address) = stand_in::of_shim(SHIM_MAKE_CHANNELS) else {
        return;
    };
    // SAFETY: the type that the shim's function of this name has; the shim stays.
    unsafe {
        let tell = transmute::<*mut libc::c_void, shim_make_channels>(address);
        tell(make as make_channel, closed as channel_closed);
    }
}

/// Tells the shim, if there is one, which descriptor a program reads asynchronous events from.
pub(crate) fn has_events(fd: c_int) {
    // SAFETY: it takes a descriptor.
    unsafe { stand_in::tell_shim::<c_int>(SHIM_HAS_EVENTS, fd) };
}

extern "C" fn make(cmd_fd: c_int) -> c_int {
    quietly(-libc::EIO, || {
        let Some(context) = command_fd::context(cmd_fd) else {
            return 0;
        };
        match context.make_channel() {
            Ok(fd) => fd.into_raw_fd(),
            Err(error) => -error.errno(),
        }
    })
}

extern "C" fn closed(fd: c_int) {
    quietly((), || ferroce_engine::channel_closed(fd));
}
