//! `<ferroce_dv.h>` is what cbindgen makes of the Rust that answers it. The header is in the
//! repository, as it is a promise: who changes it sees so in the change, and who builds needs no
//! generator.

use std::path::Path;
use std::{env, fs};

const HEADER: &str = "include/ferroce_dv.h";
const REMEDY: &str = "FERROCE_WRITE_HEADER=1 cargo test -p ferroce-dv --test header";

#[test]
fn the_header_is_current() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = made(here);
    let file = here.join(HEADER);
    if env::var_os("FERROCE_WRITE_HEADER").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &made).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == made,
        "{HEADER} is not what it is made of: {REMEDY}"
    );
}

#[test]
fn every_function_of_the_header_is_exported() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = fs::read_to_string(here.join("libferroce.map")).unwrap();
    let exported = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let mut exported: Vec<&str> = exported
        .filter(|name| name.starts_with("ferroce_"))
        .collect();
    exported.sort_unstable();

    let source = fs::read_to_string(here.join("src/c.rs")).unwrap();
    let functions = source
        .lines()
        .filter_map(|line| line.split_once("extern \"C\" fn "));
    let mut functions: Vec<&str> = functions
        .filter_map(|(_, rest)| rest.split('(').next())
        .collect();
    functions.sort_unstable();
    assert_eq!(exported, functions);

    for function in functions {
        let page = format!("man/{function}.3");
        assert!(here.join(&page).exists(), "there is no {page}");
    }
}

/// The header, without what the documentation says to callers in Rust alone.
fn made(here: &Path) -> String {
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let mut bytes = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("../../cabi/src/direct.rs"))
        .with_src(here.join("src/c.rs"))
        .generate()
        .unwrap()
        .write(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();

    let mut lines: Vec<&str> = Vec::new();
    let mut left_out = false;
    for line in text.lines() {
        left_out |= line == " * # Safety";
        if line == " */" && left_out {
            left_out = false;
            if lines.last() == Some(&" *") {
                lines.pop();
            }
        }
        if !left_out {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}
