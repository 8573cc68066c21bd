//! The layouts of this crate against the C headers: the numbers come from `size_of` and `offset_of!` here, and a C
//! compiler checks them with `_Static_assert`.
//!
//! `driver.h` is private to rdma-core and not installed. Where `FERROCE_RDMA_CORE_SRC` names a source tree of PABI 34, the
//! structures are cut from its text and checked too; `tests/observed.rs` covers the case without.

use std::path::Path;
use std::process::Command;

/// Adds assertions about one structure: `check!(out, "struct x", x { a, b => "c_name" })`.
macro_rules! check {
    ($out:expr, $c:literal, $t:ty { $($f:ident $(=> $cf:literal)?),* $(,)? }) => {{
        writeln!($out, "_Static_assert(sizeof({0}) == {1}, \"sizeof {0}\");", $c, size_of::<$t>()).unwrap();
        $({
            let c_field = check!(@name $f $(=> $cf)?);
            writeln!($out, "_Static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");", $c, c_field, offset_of!($t, $f)).unwrap();
        })*
    }};
    (@name $f:ident => $cf:literal) => { $cf };
    (@name $f:ident) => { stringify!($f).trim_start_matches("r#") };
}

/// Adds assertions about constants.
macro_rules! value {
    ($out:expr, $($c:literal = $v:expr),* $(,)?) => {
        $(writeln!($out, "_Static_assert(({0}) == {1}, \"{0}\");", $c, $v).unwrap();)*
    };
}

mod attributes;
mod extended;
mod kernel;
mod objects;
mod provider;

fn public(out: &mut String) {
    out.push_str("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
    attributes::check(out);
    objects::check(out);
    extended::check(out);
}

fn compile(source: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("layout.c");
    std::fs::write(&file, source).unwrap();
    let out = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only"])
        .arg(&file)
        .output()
        .expect("cc");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn headers_missing() -> bool {
    let missing = !Path::new("/usr/include/infiniband/verbs.h").exists();
    if missing {
        eprintln!("SKIPPED: <infiniband/verbs.h> is not installed (libibverbs-dev)");
    }
    missing
}

#[test]
fn public_verbs() {
    if headers_missing() {
        return;
    }
    let mut source = String::new();
    public(&mut source);
    compile(&source);
}

#[test]
fn kernel_uverbs() {
    if headers_missing() {
        return;
    }
    let mut source = String::from("#include <stddef.h>\n");
    kernel::check(&mut source);
    compile(&source);
}

#[test]
fn a_wrong_number_is_found() {
    if headers_missing() {
        return;
    }
    let mut source = String::new();
    public(&mut source);
    let wrong = source.replacen(
        "sizeof(struct ibv_wc) == 48",
        "sizeof(struct ibv_wc) == 44",
        1,
    );
    assert_ne!(wrong, source);
    assert!(std::panic::catch_unwind(|| compile(&wrong)).is_err());
}

#[test]
fn provider_interface_against_source() {
    let Some(tree) = std::env::var_os("FERROCE_RDMA_CORE_SRC") else {
        eprintln!("SKIPPED: FERROCE_RDMA_CORE_SRC names no rdma-core source tree");
        return;
    };
    if headers_missing() {
        return;
    }
    let driver_h = std::fs::read_to_string(Path::new(&tree).join("libibverbs/driver.h"))
        .expect("libibverbs/driver.h");
    let mut source = String::new();
    public(&mut source);
    provider::check(&mut source, &driver_h);
    compile(&source);
}
