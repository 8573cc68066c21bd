//! Stand-ins for libibverbs: small C libraries made from a row of the table, which do what
//! libibverbs does with a provider as far as it is private. They take the operations, put defaults
//! where none is offered, and call all of them in order.

use super::super::*;
use ferroce_cabi::pabi::{LAYOUTS, Layout};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What a stand-in is like; the fields are changed to make libraries that differ from the table.
pub(super) struct Shape {
    pub number: u32,
    pub marks: Vec<&'static str>,
    pub operations: Vec<&'static str>,
    /// Bytes in front of `verbs_context`.
    pub head: usize,
    pub qp_mask: usize,
}

/// What every stand-in begins with. A function that is called says so; the place of each is in no
/// structure of Rust's.
const BEGINNING: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef void (*op)(void);
static void (*says)(const char *whose, const char *name);
"#;

/// Two functions for each operation: the library's own, and one to offer.
const OPERATION: &str = r#"
static void default_NAME(void) { says("libibverbs", "NAME"); }
static void offered_NAME(void) { says("ferroce", "NAME"); }
"#;

/// What does not depend on the operations.
const FUNCTIONS: &str = r#"
const void *registered;
void verbs_register_driver_NUMBER(const void *ops) { registered = ops; }

void *_verbs_init_and_alloc_context(void *device, int fd, size_t size, size_t offset, uint32_t id)
{
    (void)fd; (void)id;
    if (offset + SIZE > size)
        abort();
    char *memory = calloc(1, size);
    *(size_t *)(memory + offset + SZ) = SIZE;
    *(void **)(memory + offset + CONTEXT) = device;
    return memory;
}

void verbs_uninit_context(void *context) { (void)context; }
void *ibv_qp_to_qp_ex(char *qp) { return *(uint32_t *)(qp + QP_MASK) & 2 ? qp : NULL; }
"#;

impl Shape {
    pub(super) fn of(layout: &'static Layout) -> Shape {
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
        let mut text = BEGINNING.to_owned();
        for name in &self.operations {
            text.push_str(&OPERATION.replace("NAME", name));
        }
        self.table(&mut text);
        let context = self.head + offset_of!(verbs_context, context);
        let functions = FUNCTIONS
            .replace("NUMBER", &self.number.to_string())
            .replace(
                "SIZE",
                &(self.head + size_of::<verbs_context>()).to_string(),
            )
            .replace(
                "SZ",
                &(self.head + offset_of!(verbs_context, sz)).to_string(),
            )
            .replace("CONTEXT", &context.to_string())
            .replace("QP_MASK", &self.qp_mask.to_string());

        text.push_str(&functions);
        self.set_ops(&mut text, context);
        self.looks(&mut text);
        for mark in &self.marks {
            writeln!(text, "void {mark}(void) {{}}").unwrap();
        }
        text
    }

    /// `struct verbs_context_ops`, and one that has the defaults.
    fn table(&self, text: &mut String) {
        text.push_str("struct verbs_context_ops {\n");
        for name in &self.operations {
            writeln!(text, "op {name};").unwrap();
        }
        text.push_str("};\nstatic struct verbs_context_ops taken = {\n");
        for name in &self.operations {
            writeln!(text, ".{name} = default_{name},").unwrap();
        }
        text.push_str("};\n");
    }

    /// `verbs_set_ops`: what is offered replaces what there is, here and in the public tables.
    fn set_ops(&self, text: &mut String, context: usize) {
        text.push_str(
            "void verbs_set_ops(char *context, const struct verbs_context_ops *ops)\n{\n",
        );
        for name in &self.operations {
            writeln!(text, "if (ops->{name}) taken.{name} = ops->{name};").unwrap();
        }
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

        text.push_str("}\n");
    }

    /// What the tests look through: a function to offer by its name, and all that were taken called
    /// in the order of the table.
    fn looks(&self, text: &mut String) {
        text.push_str("op stand_in_offered(const char *name)\n{\n");
        for name in &self.operations {
            writeln!(
                text,
                "if (!strcmp(name, \"{name}\")) return offered_{name};"
            )
            .unwrap();
        }

        text.push_str("return NULL;\n}\n");
        text.push_str(
            "void stand_in_call_all(void (*say)(const char *, const char *))\n{\nsays = say;\n",
        );
        for name in &self.operations {
            writeln!(text, "taken.{name}();").unwrap();
        }
        text.push_str("}\n");
    }

    /// The library, with the versions of its symbols, loaded beside whatever else there is.
    pub(super) fn load(&self, dir: &Path) -> Symbols {
        let [source, map, library] =
            ["stand_in.c", "stand_in.map", "stand_in.so"].map(|name| dir.join(name));
        std::fs::write(&source, self.source()).unwrap();
        let private = format!(
            "IBVERBS_1.99 {{ global: ibv_*; _ibv_*; stand_in_*; registered; local: *; }};\n\
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
