//! The private functions of each libibverbs of the process, found at run time: building needs no
//! libibverbs, and one binary serves every version of the interface that `ferroce-cabi` has a
//! layout for.
//!
//! What the table of layouts says of a library is checked on the library itself before anything of
//! it is used.

use ferroce_cabi::pabi::{
    self, Operations, REGISTER_DRIVER, Served, Unserved, VERBS_QP_EX, verbs_device,
    verbs_device_ops, verbs_qp, verbs_qp_tail,
};
use ferroce_cabi::{Op, ibv_context_ops, ibv_device, ibv_qp, ibv_qp_ex, verbs_context};
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_void};
use std::mem::{MaybeUninit, offset_of, size_of, transmute, zeroed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

#[cfg(test)]
#[path = "libibverbs_tests.rs"]
mod tests;

/// The functions of one libibverbs, and its version.
pub(crate) struct Library {
    pub served: Served,
    pub register_driver: pabi::verbs_register_driver,
    pub init_and_alloc_context: pabi::verbs_init_and_alloc_context,
    pub uninit_context: pabi::verbs_uninit_context,
    pub set_ops: pabi::verbs_set_ops,
}

/// The libraries of this process whose interface is one of those that we know and that have not
/// been asked for before: packages bring their own libibverbs along, and a program that uses two of
/// them has two.
///
/// Says on stderr what is wrong with one that has another interface: it has asked for a driver, and
/// gets none.
///
/// Takes no lock while it calls the dynamic linker, which has one of its own: it is called in
/// constructors, and beside them.
pub(crate) fn newcomers() -> Vec<Library> {
    static KNOWN: Mutex<Known> = Mutex::new(Known {
        served: Vec::new(),
        unserved: Vec::new(),
    });
    let found = Symbols::of_all()
        .map(|symbols| (symbols.handle.addr(), Library::of(&symbols)))
        .collect::<Vec<_>>();

    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut come = Vec::new();
    for (handle, library) in found {
        match library {
            Ok(library) => come.extend(known.enter(library)),
            Err(unserved) => known.say(handle, &unserved),
        }
    }
    come
}

/// What has been found.
struct Known {
    /// The addresses of their functions to register with: what is asked of a library that another
    /// one needs is answered by that one, too.
    served: Vec<usize>,
    /// Handles of the others.
    unserved: Vec<usize>,
}

impl Known {
    /// The library, unless it is known.
    fn enter(&mut self, library: Library) -> Option<Library> {
        let address = (library.register_driver as *const ()).addr();
        let is_new = !self.served.contains(&address);
        is_new.then(|| {
            self.served.push(address);
            library
        })
    }

    /// Says once what is wrong. What has no private interface at all is no libibverbs, unless
    /// nothing else is.
    fn say(&mut self, handle: usize, unserved: &Unserved) {
        let is_one = unserved.number.is_some() || self.served.is_empty();
        if is_one && !self.unserved.contains(&handle) {
            self.unserved.push(handle);
            eprintln!("ferroce: no device for this libibverbs: {unserved}");
        }
    }
}

impl Library {
    fn of(symbols: &Symbols) -> Result<Library, Unserved> {
        let has = |name: &CStr| symbols.address(name).is_some();
        let served = pabi::recognise(has, || symbols.qp_mask())?;
        let number = Some(served.layout.number);
        Library::with(symbols, served).ok_or(Unserved { number })
    }

    fn with(symbols: &Symbols, served: Served) -> Option<Library> {
        let register = CString::new(format!("{REGISTER_DRIVER}{}", served.layout.number)).ok()?;

        // SAFETY: the types that these symbols have in all versions that there are layouts for.
        unsafe {
            Some(Library {
                served,
                register_driver: transmute::<*mut c_void, pabi::verbs_register_driver>(
                    symbols.address(&register)?,
                ),
                init_and_alloc_context: transmute::<*mut c_void, pabi::verbs_init_and_alloc_context>(
                    symbols.address(c"_verbs_init_and_alloc_context")?,
                ),
                uninit_context: transmute::<*mut c_void, pabi::verbs_uninit_context>(
                    symbols.address(c"verbs_uninit_context")?,
                ),
                set_ops: transmute::<*mut c_void, pabi::verbs_set_ops>(
                    symbols.address(c"verbs_set_ops")?,
                ),
            })
        }
    }

    /// The bytes by which this library's `verbs_context` begins before ours.
    pub(crate) fn context_head(&self) -> usize {
        self.served.layout.context_head() * size_of::<Op>()
    }
}

/// What a libibverbs has of us: it keeps the address in each device that it has us make, which
/// tells afterwards whose that is.
#[repr(C)]
struct Registration {
    ops: verbs_device_ops,
    library: Library,
}

/// More libraries than a process has.
const MOST: usize = 32;

/// They are in this library's own memory: by that `libferroce.so` knows whose a device is.
struct Registrations {
    taken: AtomicUsize,
    places: [UnsafeCell<MaybeUninit<Registration>>; MOST],
}

// SAFETY: who takes a place writes it, once, before anybody knows of it.
unsafe impl Sync for Registrations {}

static REGISTRATIONS: Registrations = Registrations {
    taken: AtomicUsize::new(0),
    places: [const { UnsafeCell::new(MaybeUninit::uninit()) }; MOST],
};

/// Registers with a library, for good.
pub(crate) fn register(library: Library, ops: verbs_device_ops) {
    let taken = REGISTRATIONS.taken.fetch_add(1, Ordering::Relaxed);
    let Some(place) = REGISTRATIONS.places.get(taken) else {
        eprintln!("ferroce: no device for this libibverbs: the program has {MOST} others");
        return;
    };
    // SAFETY: nobody else has the place.
    let registration = unsafe { (*place.get()).write(Registration { ops, library }) };
    let register_driver = registration.library.register_driver;
    // SAFETY: the table stays and is as all versions of the interface have it.
    unsafe { register_driver((&raw const *registration).cast()) };
}

/// The libibverbs of a device.
///
/// # Safety
/// A device that a libibverbs has had us make.
pub(crate) unsafe fn library(device: *const ibv_device) -> &'static Library {
    // SAFETY: libibverbs has put there what it was registered with, which is never freed.
    unsafe {
        let ops = (*device.cast::<verbs_device>()).ops;
        &(*ops.cast::<Registration>()).library
    }
}

/// A library, if it is loaded: it stays so.
fn loaded(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a string that ends in NUL; RTLD_NOLOAD loads nothing.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}

/// The paths of loaded libraries whose names begin as libibverbs' does: tools that make packages
/// self-contained put a mark into the name.
fn files() -> Vec<CString> {
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        paths: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: what `dl_iterate_phdr` hands over: an entry, and the list that it was given
        // below.
        let (name, paths) = unsafe { ((*info).dlpi_name, &mut *paths.cast::<Vec<CString>>()) };
        if name.is_null() {
            return 0;
        }
        // SAFETY: the name of an entry ends in NUL.
        let path = unsafe { CStr::from_ptr(name) };
        let bytes = path.to_bytes();
        let file = bytes.rsplit(|byte| *byte == b'/').next();
        if file.is_some_and(|file| file.starts_with(b"libibverbs")) {
            paths.push(path.to_owned());
        }
        0
    }

    let mut paths: Vec<CString> = Vec::new();

    // SAFETY: the list outlives the call, and `add` takes it for what it is.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut paths).cast()) };
    paths
}

/// The dynamic symbols of a loaded library.
struct Symbols {
    handle: *mut c_void,
}

impl Symbols {
    /// Those of every libibverbs that is loaded, the system's and those that packages bring along
    /// under other names (`libibverbs-1de1263b.so.1.14`). What has none by such a name may have one
    /// built in.
    ///
    /// They need not be in the global scope: Python loads them as dependencies of extension
    /// modules.
    fn of_all() -> impl Iterator<Item = Symbols> {
        let mut handles: Vec<_> = files().iter().filter_map(|path| loaded(path)).collect();
        if handles.is_empty() {
            handles.push(libc::RTLD_DEFAULT);
        }
        handles.into_iter().map(|handle| Symbols { handle })
    }

    /// The private functions have one version each, and their names do not occur elsewhere: `dlsym`
    /// does, which musl has too.
    fn address(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a live handle and NUL-terminated names.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Where `ibv_qp_to_qp_ex(3)` looks for `comp_mask`: each place is tried with a queue pair that
    /// has the flag there alone.
    fn qp_mask(&self) -> Option<usize> {
        type ToQpEx = unsafe extern "C" fn(*mut ibv_qp) -> *mut ibv_qp_ex;

        // SAFETY: the type that the function has.
        let to_qp_ex: ToQpEx = unsafe { transmute(self.address(c"ibv_qp_to_qp_ex")?) };
        let last = size_of::<verbs_qp>() - size_of::<verbs_qp_tail>();
        (pabi::QP_MASK_FIRST..=last)
            .step_by(size_of::<Op>())
            .find(|offset| {
                // SAFETY: all bits zero is a valid `verbs_qp`: integers, pointers and optional
                // functions.
                let mut qp: verbs_qp = unsafe { zeroed() };
                // SAFETY: inside the object; the function reads one word of it.
                unsafe {
                    (&raw mut qp)
                        .byte_add(*offset)
                        .cast::<u32>()
                        .write(VERBS_QP_EX);
                    !to_qp_ex((&raw mut qp).cast()).is_null()
                }
            })
    }
}

/// Whether a context looks as the layout says, after the library has filled it in for `device`.
pub(crate) fn is_as_expected(
    library: &Library,
    verbs: &verbs_context,
    device: *const ibv_device,
) -> bool {
    verbs.sz == size_of::<verbs_context>() + library.context_head()
        && std::ptr::eq(verbs.context.device, device)
}

/// The offsets of functions in a table, and their names.
macro_rules! slots {
    ($table:ty: $($name:ident),* $(,)?) => {
        &[$((offset_of!($table, $name), stringify!($name))),*]
    };
}

/// What programs call out of `ibv_context` without libibverbs in between.
const PUBLIC: &[(usize, &str)] = slots!(
    ibv_context_ops: alloc_mw,
    bind_mw,
    dealloc_mw,
    poll_cq,
    post_recv,
    post_send,
    post_srq_recv,
    req_notify_cq,
);

/// The same of `verbs_context`.
const EXTENDED: &[(usize, &str)] = slots!(
    verbs_context: advise_mr,
    alloc_dm,
    alloc_null_mr,
    alloc_parent_domain,
    alloc_td,
    close_xrcd,
    create_qp_ex,
    create_srq_ex,
    dealloc_td,
    free_dm,
    get_srq_num,
    modify_cq,
    modify_qp_rate_limit,
    open_qp,
    open_xrcd,
    post_srq_ops,
    query_device_ex,
    query_rt_values,
    reg_dm_mr,
);

/// Whether the operations that programs call without libibverbs in between stand where they belong,
/// after `verbs_set_ops`: a table with another order of slots would have put others there.
pub(crate) fn is_in_order(verbs: &verbs_context, offered: &Operations) -> bool {
    let all = |pairs: &[(usize, &str)], base: *const u8| {
        pairs.iter().all(|(offset, name)| {
            // SAFETY: the offset of an optional function in the structure, of which `Op` is one.
            let stands = unsafe { base.add(*offset).cast::<Op>().read() };
            offered.slot(name).is_none_or(|function| {
                stands.is_some_and(|stands| std::ptr::fn_addr_eq(stands, function))
            })
        })
    };
    all(PUBLIC, (&raw const verbs.context.ops).cast()) && all(EXTENDED, (&raw const *verbs).cast())
}
