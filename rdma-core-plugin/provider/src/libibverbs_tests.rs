//! Every version of libibverbs that there is a layout for, by stand-ins: see `stand_in`.

use super::*;
use crate::device;
use crate::operations::OPS;
use ferroce_cabi::pabi::{LAYOUTS, Layout, VERBS_QP_XRCD, verbs_sysfs_dev};
use stand_in::Shape;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Mutex;

#[path = "libibverbs_stand_in.rs"]
mod stand_in;

/// A library with a context made as `crate::open` makes it, before our operations are in it.
struct Opened {
    library: Library,
    memory: *mut c_void,
    verbs: *mut verbs_context,
}

/// Room at the end of the memory, as a context has it.
const ROOM: usize = 256;

fn open(symbols: &Symbols, device: *mut ibv_device) -> Opened {
    let library = Library::of(symbols).unwrap();
    let head = library.context_head();
    let size = head + size_of::<verbs_context>() + ROOM;
    // SAFETY: the stand-in's function; it keeps the device's address and does not look at it.
    let memory = unsafe { (library.init_and_alloc_context)(device, -1, size, null_mut(), 0) };
    // SAFETY: inside that memory.
    let verbs = unsafe { memory.byte_add(head) }.cast();
    Opened {
        library,
        memory,
        verbs,
    }
}

impl Opened {
    fn is_as_expected(&self, device: *const ibv_device) -> bool {
        // SAFETY: memory of the stand-in's, zeroed where it did not write.
        is_as_expected(&self.library, unsafe { &*self.verbs }, device)
    }

    /// Hands over our operations; whether they are in order then.
    fn offer(&self) -> bool {
        self.offer_of(&OPS)
    }

    fn offer_of(&self, operations: &Operations) -> bool {
        // A stand-in that takes a longer table reads beyond this one, which is therefore made
        // longer.
        let mut table = self.library.served.layout.table(operations).into_vec();
        table.push(None);
        // SAFETY: memory of the stand-in's, and a table of its version.
        unsafe {
            (self.library.set_ops)(self.memory.cast(), table.as_ptr());
            is_in_order(&*self.verbs, operations)
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the stand-in's `calloc`.
        unsafe { libc::free(self.memory) };
    }
}

fn device() -> *mut ibv_device {
    without_provenance_mut(0x1000)
}

/// A table in which each function that is offered is one of the stand-in's, which says its name
/// when it is called.
fn speaking(symbols: &Symbols) -> Operations {
    type Offered = unsafe extern "C" fn(*const libc::c_char) -> Op;
    // SAFETY: the stand-in's function, which has this type.
    let offered: Offered = unsafe { transmute(symbols.address(c"stand_in_offered").unwrap()) };
    let replacement = |name: &str| {
        let name = CString::new(name).unwrap();
        // SAFETY: a name that ends in NUL; null for an operation that this version does not have.
        unsafe { offered(name.as_ptr()) }
    };
    // SAFETY: only the stand-in calls them, and by their own type.
    unsafe { OPS.map(replacement) }
}

/// Who answers when a stand-in calls every slot in the order of its table: whose function it is,
/// and its name.
fn called(symbols: &Symbols) -> Vec<(String, String)> {
    static SAID: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
    type CallAll =
        unsafe extern "C" fn(unsafe extern "C" fn(*const libc::c_char, *const libc::c_char));

    unsafe extern "C" fn say(whose: *const libc::c_char, name: *const libc::c_char) {
        // SAFETY: constants of the stand-in's.
        let [whose, name] = [whose, name].map(|text| unsafe { CStr::from_ptr(text) });
        let [whose, name] = [whose, name].map(|text| text.to_str().unwrap().to_owned());
        SAID.lock().unwrap().push((whose, name));
    }

    // SAFETY: the stand-in's function, which has this type and calls what it has taken, functions
    // of its own.
    unsafe {
        let call_all: CallAll = transmute(symbols.address(c"stand_in_call_all").unwrap());
        call_all(say);
    }

    std::mem::take(&mut *SAID.lock().unwrap())
}

#[test]
fn every_version_is_served() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let symbols = Shape::of(layout).load(dir.path());
        let served = Library::of(&symbols).unwrap().served;
        assert_eq!(served.layout.first, layout.first);
        assert_eq!(served.qp_mask, layout.qp_mask());

        the_plugin_registers_and_makes_a_device(&symbols);
        each_operation_is_reached_by_its_slot(&symbols, layout);
        a_queue_pair_is_an_extended_one(&symbols, layout);
    }
}

/// What a libibverbs does with a provider before there is a context.
fn the_plugin_registers_and_makes_a_device(symbols: &Symbols) {
    device::register_with(Library::of(symbols).unwrap());

    // SAFETY: the stand-in's variable, and in it the address of a static table; all bits zero is a
    // valid `verbs_sysfs_dev`; the functions are called as libibverbs calls them.
    unsafe {
        let registered = symbols.address(c"registered").unwrap();
        let ops = &*registered.cast::<*const verbs_device_ops>().read();
        assert_eq!(CStr::from_ptr(ops.name), c"ferroce");
        let mut sysfs: verbs_sysfs_dev = zeroed();
        assert!(!ops.match_device.unwrap()(&mut sysfs));
        sysfs.sysfs_cdev = libc::makedev(1, 3);
        assert!(ops.match_device.unwrap()(&mut sysfs));
        let made = ops.alloc_device.unwrap()(&mut sysfs);
        assert!(!made.is_null());
        ops.uninit_device.unwrap()(made);
    }
}

/// Every slot is called: what we offer is reached under its own name, and all else is libibverbs'
/// default.
fn each_operation_is_reached_by_its_slot(symbols: &Symbols, layout: &Layout) {
    let opened = open(symbols, device());
    assert!(opened.is_as_expected(device()), "{layout:?}");
    let names = layout.operations();
    let answers = |offered: fn(&str) -> bool| -> Vec<(String, String)> {
        let whose = |name| match offered(name) {
            true => "ferroce",
            false => "libibverbs",
        };
        let answers = names.iter().map(|name| (whose(name), *name));
        answers
            .map(|(whose, name)| (whose.to_owned(), name.to_owned()))
            .collect()
    };

    assert_eq!(called(symbols), answers(|_| false), "{layout:?}");
    assert!(opened.offer_of(&speaking(symbols)), "{layout:?}");
    assert_eq!(
        called(symbols),
        answers(|name| OPS.slot(name).is_some()),
        "{layout:?}"
    );
}

fn a_queue_pair_is_an_extended_one(symbols: &Symbols, layout: &Layout) {
    let offset = Library::of(symbols).unwrap().served.qp_mask;
    let asked = |mask: u32| {
        // SAFETY: all bits zero is a valid `verbs_qp`; the tail is inside it.
        unsafe {
            let mut qp: verbs_qp = zeroed();
            crate::wr::install(&mut qp.qp_ex);
            let tail = verbs_qp_tail {
                comp_mask: mask,
                xrcd: null_mut(),
            };
            (&raw mut qp)
                .byte_add(offset)
                .cast::<verbs_qp_tail>()
                .write(tail);
            let to: unsafe extern "C" fn(*mut verbs_qp) -> *mut ibv_qp_ex =
                transmute(symbols.address(c"ibv_qp_to_qp_ex").unwrap());
            !to(&raw mut qp).is_null()
        }
    };

    assert_eq!(
        (asked(VERBS_QP_EX), asked(VERBS_QP_XRCD)),
        (true, false),
        "{layout:?}"
    );
}

#[test]
fn all_that_is_offered_has_a_slot_in_the_newest_version() {
    let newest = LAYOUTS.last().unwrap().operations();
    for name in Operations::NAMES {
        assert!(newest.contains(name), "{name}");
    }
}

#[test]
fn a_function_of_queue_pairs_more_is_allowed_for() {
    let mut shape = Shape::of(LAYOUTS.last().unwrap());
    shape.qp_mask += size_of::<Op>();
    let dir = tempfile::tempdir().unwrap();
    let served = Library::of(&shape.load(dir.path())).unwrap().served;
    assert_eq!(served.qp_mask, shape.qp_mask);
}

#[test]
fn a_variant_with_another_order_or_size_is_refused() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let mut shape = Shape::of(layout);
        let middle = shape.operations.len() / 2;
        shape.operations.insert(middle, "invented");
        let opened = open(&shape.load(dir.path()), device());
        assert!(opened.is_as_expected(device()), "{layout:?}");
        assert!(!opened.offer(), "{layout:?}");

        let dir = tempfile::tempdir().unwrap();
        let mut shape = Shape::of(layout);
        shape.head += size_of::<Op>();
        let opened = open(&shape.load(dir.path()), device());
        assert!(!opened.is_as_expected(device()), "{layout:?}");
    }
}

#[test]
fn other_numbers_are_named_with_what_is_supported() {
    for number in [25, 66] {
        let mut shape = Shape::of(LAYOUTS.last().unwrap());
        shape.number = number;
        let dir = tempfile::tempdir().unwrap();
        let unserved = Library::of(&shape.load(dir.path()))
            .map(|_| ())
            .unwrap_err();
        assert_eq!(unserved.number, Some(number));
        let said = unserved.to_string();
        let expected = format!("private ABI {number}; supported are 33, 34, 57, 59, 64, 65");
        assert!(said.starts_with(&expected), "{said}");
    }
    let none = pabi::recognise(|_| false, || None).map(|_| ()).unwrap_err();
    assert!(none.to_string().starts_with("no private ABI"), "{none}");
}

/// A stand-in of a version, under the name that a tool has given it that makes packages
/// self-contained.
fn renamed(layout: &'static Layout, dir: &std::path::Path) -> Symbols {
    Shape::of(layout).load(dir);
    let renamed = dir.join(format!("libibverbs-1de1263b.so.{}", layout.first));
    std::fs::copy(dir.join("stand_in.so"), &renamed).unwrap();
    let path = CString::new(renamed.to_str().unwrap()).unwrap();
    // SAFETY: a library without constructors, and a name that ends in NUL.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    Symbols { handle }
}

/// A device that a stand-in has the plugin make with what it was registered with, kept as
/// libibverbs keeps it.
fn made_by(symbols: &Symbols) -> *mut verbs_device {
    // SAFETY: the stand-in's variable, and in it the address of a table that stays; all bits zero
    // is a valid `verbs_sysfs_dev`.
    unsafe {
        let registered = symbols.address(c"registered").unwrap();
        let ops = registered.cast::<*const verbs_device_ops>().read();
        let mut sysfs: verbs_sysfs_dev = zeroed();
        let device = (*ops).alloc_device.unwrap()(&mut sysfs);
        (*device).ops = ops;
        device
    }
}

#[test]
fn each_library_of_a_process_is_served_by_its_own_version() {
    let [first, middle, last] = [0, LAYOUTS.len() / 2, LAYOUTS.len() - 1].map(|row| &LAYOUTS[row]);
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let load = |layout, dir: &tempfile::TempDir| (layout, renamed(layout, dir.path()));
    let mut libraries = vec![load(first, &dirs[0]), load(last, &dirs[1])];
    device::register();
    // One comes when those before are known.
    libraries.push(load(middle, &dirs[2]));
    device::register();

    for (layout, symbols) in &libraries {
        let device = made_by(symbols);
        // SAFETY: a device that was made by what the stand-in was registered with.
        let library = unsafe { library(device.cast()) };
        assert_eq!(library.served.layout.first, layout.first);
        let set_ops = symbols.address(c"verbs_set_ops").unwrap();
        assert_eq!(library.set_ops as *const (), set_ops.cast_const().cast());
        // SAFETY: as above; nobody has it any more.
        unsafe { ((*(*device).ops).uninit_device.unwrap())(device) };
    }
    assert!(newcomers().is_empty(), "each once");
}
