//! What is written about the suite: the list in docs/conformance.md is what the catalogue says, and whoever looks for a
//! statement's number finds code that obeys it.

use ferroce_ibta::{catalog, report};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("two directories up")
        .to_path_buf()
}

#[test]
fn the_list_is_up_to_date() {
    let path = workspace().join("docs/conformance.md");
    if let Err(error) = report::conformance::check(&path, &catalog::all()) {
        panic!("{error:#}");
    }
}

/// All Rust code below a directory.
fn sources(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).expect("a directory of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            *text += &fs::read_to_string(&path).expect("a source file");
        }
    }
}

/// Whether a number stands in a text, and not only as the beginning of another.
fn stands(number: &str, text: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let mut after = text[at + number.len()..].chars();
        match after.next() {
            Some(c) if c.is_ascii_digit() => false,
            Some('.') => !after.next().is_some_and(|c| c.is_ascii_digit()),
            _ => true,
        }
    })
}

#[test]
fn the_number_of_a_statement_finds_the_code_that_obeys_it() {
    let mut code = String::new();
    sources(&workspace().join("provider"), &mut code);
    let statements: BTreeSet<&str> = catalog::all()
        .iter()
        .flat_map(|test| test.statements.clone())
        .filter(|statement| statement.starts_with(['C', 'o']))
        .collect();
    assert!(statements.contains("C9-60"));
    let missing: Vec<_> = statements
        .into_iter()
        .filter(|number| !stands(number, &code))
        .collect();
    assert!(missing.is_empty(), "no code says that it obeys {missing:?}");
}
