//! `mlx5dv_query_device` of libmlx5, which perftest 25.01 asks about every device and takes a
//! refusal for the end.

use crate::next::call_next;
use crate::{descriptors, sys};
use ferroce_cabi::ibv_context;
use libc::c_int;

/// The beginning of `struct mlx5dv_context`.
#[repr(C)]
pub(super) struct Mlx5dvContext {
    version: u8,
    flags: u64,
    /// What was asked for; what is answered.
    comp_mask: u64,
}

/// Of a device of ours nothing that is asked for is there; any other is libmlx5's.
///
/// # Safety
/// As libmlx5's function of this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn mlx5dv_query_device(
    context: *mut ibv_context,
    attributes: *mut Mlx5dvContext,
) -> c_int {
    let fd = match context.is_null() {
        true => -1,
        // SAFETY: the caller's open context.
        false => unsafe { (*context).cmd_fd },
    };

    if descriptors::uverbs(fd).is_some() && sys::is_null_device(fd) && !attributes.is_null() {
        // SAFETY: the caller's place for the answer.
        unsafe {
            (*attributes).version = 0;
            (*attributes).flags = 0;
            (*attributes).comp_mask = 0;
        }
        return 0;
    }

    call_next!(mlx5dv_query_device(context => *mut ibv_context, attributes => *mut Mlx5dvContext) -> c_int, libc::EOPNOTSUPP)
}
