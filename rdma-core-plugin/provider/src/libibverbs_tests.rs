//! Every version of libibverbs that there is a layout for, by stand-ins: small C libraries made from the table, which do what
//! libibverbs does with a provider as far as it is private.

use super::*;
use crate::context::OPS;
use ferroce_cabi::pabi::{LAYOUTS, Layout, VERBS_QP_XRCD};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::ptr::{null_mut, without_provenance_mut};

/// What a stand-in is like; the fields are changed to make libraries that differ from the table.
struct Shape {
    number: u32,
    marks: Vec<&'static str>,
    operations: Vec<&'static str>,
    /// Bytes in front of `verbs_context`.
    head: usize,
    qp_mask: usize,
}

impl Shape {
    fn of(layout: &'static Layout) -> Shape {
        let history = LAYOUTS.iter().filter(|row| row.first <= layout.first);
        let mut marks: Vec<_> = history.map(|row| row.mark.to_str().unwrap()).collect();
        marks.dedup();
        Shape {
            number: layout.number,
            marks,
            operations: layout.operations(),
            head: layout.context_head() * size_of::<Op>(),
            qp_mask: layout.qp_mask(),
        }
    }

    /// The library's source.
    fn source(&self) -> String {
        let size = self.head + size_of::<verbs_context>();
        let sz = self.head + offset_of!(verbs_context, sz);
        let context = self.head + offset_of!(verbs_context, context);
        let mut text = String::from(
            "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\ntypedef void (*op)(void);\n\
             struct verbs_context_ops {\n",
        );
        for name in &self.operations {
            writeln!(text, "op {name};").unwrap();
        }
        writeln!(
            text,
            "}};\nstatic struct verbs_context_ops taken;\nconst void *registered;\n\
             void verbs_register_driver_{}(const void *ops) {{ registered = ops; }}\n\
             void *_verbs_init_and_alloc_context(void *device, int fd, size_t size, size_t offset, uint32_t id)\n\
             {{\n(void)fd; (void)id;\nif (offset + {size} > size) abort();\nchar *memory = calloc(1, size);\n\
             *(size_t *)(memory + offset + {sz}) = {size};\n*(void **)(memory + offset + {context}) = device;\nreturn memory;\n}}\n\
             void verbs_uninit_context(void *context) {{ (void)context; }}\n\
             void *ibv_qp_to_qp_ex(char *qp) {{ return *(uint32_t *)(qp + {}) & 2 ? qp : NULL; }}\n\
             void verbs_set_ops(char *context, const struct verbs_context_ops *ops)\n{{\ntaken = *ops;",
            self.number, self.qp_mask
        )
        .unwrap();
        let ops = context + offset_of!(ferroce_cabi::ibv_context, ops);
        let public = PUBLIC.iter().map(|(offset, name)| (ops + offset, name));
        let extended = EXTENDED
            .iter()
            .map(|(offset, name)| (self.head + offset, name));
        for (offset, name) in public.chain(extended) {
            writeln!(
                text,
                "if (ops->{name}) *(op *)(context + {offset}) = ops->{name};"
            )
            .unwrap();
        }
        text.push_str("}\nop stand_in_slot(const char *name)\n{\n");
        for name in &self.operations {
            writeln!(text, "if (!strcmp(name, \"{name}\")) return taken.{name};").unwrap();
        }
        text.push_str("abort();\n}\n");
        for mark in &self.marks {
            writeln!(text, "void {mark}(void) {{}}").unwrap();
        }
        text
    }

    /// The library, with the versions of its symbols, loaded beside whatever else there is.
    fn load(&self, dir: &Path) -> Symbols {
        let [source, map, library] =
            ["stand_in.c", "stand_in.map", "stand_in.so"].map(|name| dir.join(name));
        std::fs::write(&source, self.source()).unwrap();
        let private = format!(
            "IBVERBS_1.99 {{ global: ibv_*; _ibv_*; stand_in_slot; registered; local: *; }};\n\
             IBVERBS_PRIVATE_{0} {{ global: verbs_register_driver_{0}; verbs_set_ops; \
             _verbs_init_and_alloc_context; verbs_uninit_context; }};\n",
            self.number
        );
        std::fs::write(&map, private).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-Wl,-soname,stand_in.so", "-o"]);
        command.arg(&library).arg(&source);
        command.arg(format!("-Wl,--version-script={}", map.display()));
        let output = command.output().expect("a C compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let path = CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: a library without constructors, and a name that ends in NUL.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null());
        Symbols { handle }
    }
}

/// A library with a context made as `crate::context` makes it, before our operations are in it.
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
        let table = self.library.served.layout.table(&OPS);
        // SAFETY: as above; a stand-in that takes a longer table reads beyond this one, which is therefore made longer.
        unsafe {
            let mut longer = table.into_vec();
            longer.push(None);
            (self.library.set_ops)(self.memory.cast(), longer.as_ptr());
            is_in_order(&*self.verbs, &OPS)
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

#[test]
fn every_version_gets_each_operation_in_its_slot() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let symbols = Shape::of(layout).load(dir.path());
        let opened = open(&symbols, device());
        let served = opened.library.served;
        assert_eq!(served.layout.first, layout.first);
        assert_eq!(served.qp_mask, layout.qp_mask());

        // SAFETY: the stand-in's function keeps the address, and its variable is one.
        unsafe {
            let table = without_provenance_mut(0x2000);
            (opened.library.register_driver)(table);
            let registered = symbols.address(c"registered").unwrap();
            assert_eq!(
                registered.cast::<*const c_void>().read(),
                table.cast_const().cast()
            );
        }
        assert!(opened.is_as_expected(device()), "{layout:?}");
        assert!(opened.offer(), "{layout:?}");

        type Slot = unsafe extern "C" fn(*const libc::c_char) -> Op;
        // SAFETY: the stand-in's function, which has this type.
        let slot: Slot = unsafe { transmute(symbols.address(c"stand_in_slot").unwrap()) };
        for name in layout.operations() {
            let c_name = CString::new(name).unwrap();
            // SAFETY: a name of the table.
            let found = unsafe { slot(c_name.as_ptr()) };
            let address = |op: Op| op.map(|function| function as usize);
            assert_eq!(
                address(found),
                address(OPS.slot(name)),
                "{name} of {layout:?}"
            );
        }
    }
}

#[test]
fn all_that_is_offered_has_a_slot_in_the_newest_version() {
    let newest = LAYOUTS.last().unwrap().operations();
    for name in Operations::NAMES {
        assert!(newest.contains(name), "{name}");
    }
}

#[test]
fn a_queue_pair_is_an_extended_one_in_every_version() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let symbols = Shape::of(layout).load(dir.path());
        let offset = Library::of(&symbols).unwrap().served.qp_mask;
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
