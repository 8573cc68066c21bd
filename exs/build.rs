//! Compiles the C half of the verbs layer and links the stock libraries.

use std::path::PathBuf;
use std::{env, fs, process};

fn main() {
    println!("cargo:rerun-if-changed=src/verbs/shim.c");
    need_headers();
    cc::Build::new()
        .file("src/verbs/shim.c")
        .flag("-std=gnu11")
        .warnings(true)
        .extra_warnings(true)
        .compile("exs_shim");
    println!("cargo:rustc-link-lib=ibverbs");
    println!("cargo:rustc-link-lib=rdmacm");
}

/// Without them the compiler has a page of complaints, of which none says what to do.
fn need_headers() {
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let probe = PathBuf::from(out).join("headers.c");
    let text = "#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n";
    fs::write(&probe, text).expect("a file in cargo's output directory");
    let found = cc::Build::new()
        .file(&probe)
        .cargo_metadata(false)
        .cargo_warnings(false)
        .try_expand();
    if found.is_ok() {
        return;
    }

    println!(
        "cargo::error=infiniband/verbs.h or rdma/rdma_cma.h is missing: install libibverbs-dev and librdmacm-dev (Debian, Ubuntu) or \
         rdma-core-devel (Fedora, RHEL, openSUSE), or leave this crate out with --workspace --exclude ferroce-exs"
    );

    process::exit(1);
}
