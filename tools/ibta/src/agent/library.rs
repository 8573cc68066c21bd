//! libibverbs, loaded when the agent starts: so the tester itself needs no RDMA library, and what
//! is tested is whatever the environment of the agent puts in front of the program, as with any
//! other program.
//!
//! Here are addresses of functions and nothing else; who calls them says why that is sound.

use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use ferroce_cabi::{
    ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device,
    ibv_device_attr, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr,
    ibv_qp_init_attr, ibv_srq, ibv_srq_init_attr,
};
use libc::{c_char, c_int, c_uint, c_void, size_t};

/// The library's name, as every program that was linked with it has it.
const NAME: &str = "libibverbs.so.1";

/// A call of libibverbs that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {}", std::io::Error::from_raw_os_error(*errno))]
pub(super) struct VerbsError {
    /// The function's name.
    pub(super) call: &'static str,
    /// What it failed with; never 0.
    pub(super) errno: i32,
}

impl VerbsError {
    /// What a function failed with that leaves the reason in `errno`.
    pub(super) fn last(call: &'static str) -> VerbsError {
        let errno = std::io::Error::last_os_error().raw_os_error();
        VerbsError {
            call,
            errno: errno.filter(|&errno| errno != 0).unwrap_or(libc::EIO),
        }
    }

    /// What a function returned: 0 is success, and a failure is the reason itself or -1 with the
    /// reason in `errno`.
    pub(super) fn check(call: &'static str, returned: c_int) -> Result<(), VerbsError> {
        match returned {
            0 => Ok(()),
            errno @ 1.. => Err(VerbsError { call, errno }),
            _ => Err(VerbsError::last(call)),
        }
    }
}

/// The result of a verb.
pub(super) type Verb<T = ()> = std::result::Result<T, VerbsError>;

/// Declares [`Library`]: a field for each function, under its name in the library.
macro_rules! library {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libibverbs that the agent calls.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        fn functions(library: &libloading::Library) -> Result<Library> {
            Ok(Library {
                // SAFETY: the signatures are those of `<infiniband/verbs.h>`, which libibverbs
                // keeps for ever.
                $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                    .with_context(|| concat!(stringify!($name), " is missing from libibverbs"))?,)*
            })
        }
    };
}

library! {
    ibv_get_device_list(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list(*mut *mut ibv_device);
    ibv_get_device_name(*mut ibv_device) -> *const c_char;
    ibv_open_device(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device(*mut ibv_context) -> c_int;
    ibv_get_async_event(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ibv_ack_async_event(*mut ibv_async_event);
    ibv_query_device(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    ibv_query_pkey(*mut ibv_context, u8, c_int, *mut u16) -> c_int;
    _ibv_query_gid_ex(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, size_t) -> c_int;
    ibv_alloc_pd(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd(*mut ibv_pd) -> c_int;
    ibv_reg_mr(*mut ibv_pd, *mut c_void, size_t, c_int) -> *mut ibv_mr;
    ibv_dereg_mr(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    ibv_destroy_cq(*mut ibv_cq) -> c_int;
    ibv_get_cq_event(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events(*mut ibv_cq, c_uint);
    ibv_create_srq(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    ibv_destroy_srq(*mut ibv_srq) -> c_int;
    ibv_create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_query_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
    ibv_modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp(*mut ibv_qp) -> c_int;
    ibv_create_ah(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    ibv_destroy_ah(*mut ibv_ah) -> c_int;
}

impl Library {
    /// The library, which stays loaded until the process ends: drivers leave threads behind that
    /// run in it.
    ///
    /// # Errors
    /// If it is not installed or is older than rdma-core 32.
    pub(super) fn load() -> Result<&'static Library> {
        static LOADED: OnceLock<Library> = OnceLock::new();
        if let Some(loaded) = LOADED.get() {
            return Ok(loaded);
        }
        // SAFETY: its constructors are those that run in every RDMA program.
        let library = unsafe { libloading::Library::new(NAME) }
            .with_context(|| format!("loading {NAME} (Debian: libibverbs1)"))?;
        let functions = functions(&library)?;
        std::mem::forget(library);
        Ok(LOADED.get_or_init(|| functions))
    }
}
