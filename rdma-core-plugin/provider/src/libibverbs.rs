//! The private functions of the libibverbs that loaded us, found at run time: building needs no libibverbs, and one
//! binary serves whichever version of the interface the library has (so far 34).

use ferroce_cabi::pabi34;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

/// The functions of one libibverbs.
pub struct Library {
    pub register_driver: pabi34::verbs_register_driver,
    pub init_and_alloc_context: pabi34::verbs_init_and_alloc_context,
    pub uninit_context: pabi34::verbs_uninit_context,
    pub set_ops: pabi34::verbs_set_ops,
}

/// The library that is loaded in this process, if its interface is one of those that we know.
pub fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(Library::find).as_ref()
}

impl Library {
    fn find() -> Option<Library> {
        // The library need not be in the global scope: Python loads it as a dependency of an extension module.
        // SAFETY: a constant name; RTLD_NOLOAD loads nothing.
        let handle = unsafe {
            libc::dlopen(
                c"libibverbs.so.1".as_ptr(),
                libc::RTLD_NOW | libc::RTLD_NOLOAD,
            )
        };
        let handle = if handle.is_null() {
            libc::RTLD_DEFAULT
        } else {
            handle
        };
        let symbol = |name: &CStr| -> Option<*mut c_void> {
            // SAFETY: a live handle and NUL-terminated names.
            let address =
                unsafe { libc::dlvsym(handle, name.as_ptr(), c"IBVERBS_PRIVATE_34".as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        // SAFETY: the types that these symbols have under that version (`tests/observed.rs` of ferroce-cabi).
        unsafe {
            Some(Library {
                register_driver: std::mem::transmute::<*mut c_void, pabi34::verbs_register_driver>(
                    symbol(c"verbs_register_driver_34")?,
                ),
                init_and_alloc_context: std::mem::transmute::<
                    *mut c_void,
                    pabi34::verbs_init_and_alloc_context,
                >(symbol(
                    c"_verbs_init_and_alloc_context",
                )?),
                uninit_context: std::mem::transmute::<*mut c_void, pabi34::verbs_uninit_context>(
                    symbol(c"verbs_uninit_context")?,
                ),
                set_ops: std::mem::transmute::<*mut c_void, pabi34::verbs_set_ops>(symbol(
                    c"verbs_set_ops",
                )?),
            })
        }
    }
}
