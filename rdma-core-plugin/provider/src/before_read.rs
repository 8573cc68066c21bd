//! What a thread does that is about to read a completion channel: it receives by itself for a
//! moment where that is likely to bring an event, instead of being woken for it.

use crate::guard::quietly;
use crate::stand_in;
use ferroce_cabi::uverbs::{self, SHIM_BEFORE_READ};
use ferroce_engine::AwakeWait;
use ferroce_signals::Held;
use libc::c_int;

/// Has the shim call this before reads of completion channels, if there is one.
pub(crate) fn register() {
    // SAFETY: it takes such a function.
    unsafe { stand_in::tell_shim::<uverbs::before_read>(SHIM_BEFORE_READ, before_read) };
}

extern "C" fn before_read(fd: c_int) -> c_int {
    quietly(0, || {
        let Some(wait) = AwakeWait::worth(fd) else {
            return 0;
        };
        let held = Held::all();
        let has_event = wait.wait();
        match !has_event && held.would_end_a_call() {
            true => libc::EINTR,
            false => 0,
        }
    })
}
