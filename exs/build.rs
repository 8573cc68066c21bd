//! Compiles the C half of the verbs layer and links the stock libraries.

fn main() {
    println!("cargo:rerun-if-changed=src/verbs/shim.c");
    cc::Build::new()
        .file("src/verbs/shim.c")
        .flag("-std=gnu11")
        .warnings(true)
        .extra_warnings(true)
        .compile("exs_shim");
    println!("cargo:rustc-link-lib=ibverbs");
    println!("cargo:rustc-link-lib=rdmacm");
}
