//! The layouts of this crate against the C headers: the numbers come from `size_of` and
//! `offset_of!` here, and a C compiler checks them with `_Static_assert`.
//!
//! `driver.h` is private to rdma-core and not installed. Where `FERROCE_RDMA_CORE_SRC` names a
//! source tree, of any version that there is a row for in `pabi::LAYOUTS`, the structures are cut
//! from its text and checked too, with what the row says; `tests/observed.rs` and the provider's
//! tests with stand-ins cover the case without.

use ferroce_cabi::pabi::{LAYOUTS, Layout};
use std::path::Path;
use std::process::Command;

/// Adds assertions about one structure: `check!(out, "struct x", x { a, b => "c_name" })`.
///
/// `"struct x" grown from N` has at least N bytes: later versions append. `"struct x" from f` has
/// grown in front of field `f`.
macro_rules! check {
    ($out:expr, $c:literal grown from $size:expr, $t:ty { $($f:ident),* $(,)? }) => {{
        writeln!($out, "_Static_assert(sizeof({0}) >= {1}, \"sizeof {0}\");", $c, $size).unwrap();
        $(writeln!($out, "_Static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");", $c, check!(@name $f), offset_of!($t, $f)).unwrap();)*
    }};
    ($out:expr, $c:literal from $first:ident, $t:ty { $($f:ident),* $(,)? }) => {{
        let head = format!("offsetof({}, {})", $c, stringify!($first));
        writeln!($out, "_Static_assert(sizeof({0}) - {2} == {1}, \"sizeof {0}\");", $c, size_of::<$t>(), head).unwrap();
        $(writeln!($out, "_Static_assert(offsetof({0}, {1}) - {3} == {2}, \"{0}.{1}\");", $c, check!(@name $f), offset_of!($t, $f), head).unwrap();)*
    }};
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
mod queues;

/// What came after the oldest version that there is a layout for, with the word by which a header
/// is known to have it. All other assertions are about every version.
const LATER: &[(&str, &str)] = &[
    (
        "struct ibv_device_attr_ex.phys_port_cnt_ex",
        "phys_port_cnt_ex",
    ),
    ("struct ibv_dm.handle", "IBV_DM_MASK_HANDLE"),
    ("IBV_DM_MASK_HANDLE", "IBV_DM_MASK_HANDLE"),
    ("IBV_MR_TYPE_DMABUF_MR", "IBV_MR_TYPE_DMABUF_MR"),
    ("struct ibv_qp_ex.wr_atomic_write", "wr_atomic_write"),
    ("struct ibv_qp_ex.wr_flush", "wr_flush"),
    ("IBV_WC_ATOMIC_WRITE", "IBV_WC_ATOMIC_WRITE"),
];

/// The assertions about `<infiniband/verbs.h>`, of which `text` is the text.
fn public(out: &mut String, text: &str) {
    out.push_str("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
    let mut assertions = String::new();
    attributes::check(&mut assertions);
    queues::check(&mut assertions);
    objects::check(&mut assertions);
    extended::check(&mut assertions);
    append_known(out, &assertions, text);
}

/// Appends all but what the header does not have yet.
fn append_known(out: &mut String, assertions: &str, text: &str) {
    let missing = |line: &str| {
        let mut later = LATER.iter();
        later.any(|(what, word)| line.contains(&format!("\"{what}\"")) && !has_word(text, word))
    };
    for line in assertions.lines().filter(|line| !missing(line)) {
        out.push_str(line);
        out.push('\n');
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|found| found == word)
}

fn installed_verbs_h() -> String {
    std::fs::read_to_string("/usr/include/infiniband/verbs.h").unwrap()
}

/// Compiles with the headers that are installed, or with those in `include`.
fn compile(source: &str, include: Option<&Path>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("layout.c");
    std::fs::write(&file, source).unwrap();
    let mut command = Command::new("cc");
    if let Some(include) = include {
        command.arg("-I").arg(include);
    }

    let out = command
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
    public(&mut source, &installed_verbs_h());
    compile(&source, None);
}

#[test]
fn kernel_uverbs() {
    if headers_missing() {
        return;
    }
    let mut source = String::from("#include <stddef.h>\n");
    kernel::check(&mut source);
    compile(&source, None);
}

#[test]
fn a_wrong_number_is_found() {
    if headers_missing() {
        return;
    }
    let mut source = String::new();
    public(&mut source, &installed_verbs_h());
    let wrong = source.replacen(
        "sizeof(struct ibv_wc) == 48",
        "sizeof(struct ibv_wc) == 44",
        1,
    );
    assert_ne!(wrong, source);
    assert!(std::panic::catch_unwind(|| compile(&wrong, None)).is_err());
}

#[test]
fn provider_interface_against_source() {
    let Some(tree) = std::env::var_os("FERROCE_RDMA_CORE_SRC") else {
        eprintln!("SKIPPED: FERROCE_RDMA_CORE_SRC names no rdma-core source tree");
        return;
    };
    let tree = Path::new(&tree);
    let read = |name: &str| std::fs::read_to_string(tree.join(name)).expect(name);
    let (layout, driver_h) = (
        layout_of(&read("CMakeLists.txt")),
        read("libibverbs/driver.h"),
    );

    let map = read("libibverbs/libibverbs.map.in");
    assert!(has_word(&map, layout.mark.to_str().unwrap()), "{layout:?}");
    let verbs_h = read("libibverbs/verbs.h");

    // The headers as they are installed.
    let include = tempfile::tempdir().unwrap();
    for (name, folder) in [
        ("infiniband", "libibverbs"),
        ("rdma", "kernel-headers/rdma"),
    ] {
        std::os::unix::fs::symlink(tree.join(folder), include.path().join(name)).unwrap();
    }

    let mut source = String::from("#include <sys/types.h>\n");
    public(&mut source, &verbs_h);
    let mut private = String::new();
    provider::check(&mut private, &driver_h);
    append_known(&mut source, &private, &driver_h);
    provider::check_version(&mut source, &driver_h, layout);
    compile(&source, Some(include.path()));
}

/// The row for a version of rdma-core, by what its build file says.
fn layout_of(cmake: &str) -> &'static Layout {
    let set = |variable: &str| -> u32 {
        let (_, rest) = cmake
            .split_once(&format!("set({variable} \""))
            .expect(variable);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect(variable)
    };
    let version = set("PACKAGE_VERSION");
    let layout = LAYOUTS.iter().rfind(|layout| layout.first <= version);
    let layout = layout.expect("a version that there is a layout for");
    assert_eq!(set("IBVERBS_PABI_VERSION"), layout.number);
    layout
}
