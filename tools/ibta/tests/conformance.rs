//! What is written about the suite: the list in docs/conformance/suite.md is what the catalogue
//! says, and whoever looks for the number of a statement or a section finds code that obeys it.

use ferroce_ibta::statement::canonical;
use ferroce_ibta::{known, report, suite};
use std::collections::{BTreeMap, BTreeSet};
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
    let path = workspace().join("docs/conformance/suite.md");
    if let Err(error) = report::conformance::check(&path, &suite::all()) {
        panic!("{error:#}");
    }
}

#[test]
fn the_matrix_of_statements_is_up_to_date() {
    let path = workspace().join("docs/conformance/statements.md");
    if let Err(error) = report::statements::check(&path, &suite::all()) {
        panic!("{error:#}");
    }
}

#[test]
fn every_statement_that_a_test_cites_is_known() {
    for test in suite::all() {
        for cited in &test.statements {
            let is_section = !cited.contains('-');
            assert!(
                is_section || known::about(cited).is_some(),
                "{} cites {cited}, which is not in known.rs",
                test.id
            );
        }
    }
}

/// All Rust code of the product below a directory: no tests.
fn sources(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).expect("a directory of the workspace") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !matches!(&*name, "tests" | "fuzz" | "target") {
                sources(&path, text);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let file = fs::read_to_string(&path).expect("a source file");
            *text += file.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        }
    }
}

/// The numbers of statements in a text, and of sections, which are called so: "section 9.7.6",
/// "sections 9.8.2 and 9.8.3".
fn numbers(text: &str) -> BTreeSet<String> {
    let mut words = text
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_')))
        .map(|word| word.trim_matches(['.', '-']))
        .filter(|word| !word.is_empty())
        .peekable();

    let mut found = BTreeSet::new();
    while let Some(word) = words.next() {
        if !word.eq_ignore_ascii_case("section") && !word.eq_ignore_ascii_case("sections") {
            found.extend(canonical(word).filter(|number| number.contains('-')));
            continue;
        }
        // One, and those that are joined to it.
        found.extend(words.next().and_then(canonical));
        while words
            .next_if(|word| matches!(*word, "and" | "to"))
            .is_some()
        {
            found.extend(words.next().and_then(canonical));
        }
    }

    found
}

#[test]
fn sections_are_found_where_they_are_called_so() {
    let text = "// C9-60, then section 9.7.6. See (sections 9.8.2\n and 9.8.3): 127.0.0.1 or 1.5 are none.";
    let due = ["9.7.6", "9.8.2", "9.8.3", "c9-60"].map(str::to_owned);
    assert_eq!(numbers(text), due.into());
}

#[test]
fn the_number_of_a_statement_or_section_finds_the_code_that_obeys_it() {
    let mut code = String::new();
    sources(&workspace().join("provider"), &mut code);
    let obeyed = numbers(&code);
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut cited = 0;
    for test in suite::all() {
        for name in &test.statements {
            let number =
                canonical(name).unwrap_or_else(|| panic!("{}: {name} is no number", test.id));
            cited += 1;
            if !obeyed.contains(&number) {
                missing
                    .entry(name.clone())
                    .or_default()
                    .push(test.id.clone());
            }
        }
    }

    assert!(cited > 600, "only {cited} statements are cited");
    assert!(missing.is_empty(), "no code says that it obeys {missing:?}");
}

#[test]
fn what_the_specification_asserts_is_said_of_its_statement() {
    for test in suite::all() {
        for assertion in &test.assertions {
            if let Some(statement) = ferroce_ibta::statement::of_assertion(assertion) {
                assert!(
                    test.statements.contains(&statement),
                    "{} asserts {assertion}, and does not cover {statement}",
                    test.id
                );
            }
        }
    }
}
