//! Which tests a command means.

use anyhow::{Result, bail};
use ferroce_ibta::catalog::{self, Test};
use ferroce_ibta::statement::canonical;
use ferroce_ibta::suite;

/// The tests of these names, the tests of this family, or all. A number in place of a name or a family stands for every test of
/// that family, and every test about that statement or section.
///
/// # Errors
/// A name that nothing has, with the one that is most like it.
pub fn select(names: &[String], family: Option<&str>, all: bool) -> Result<Vec<Test>> {
    let tests = suite::all();
    for name in names {
        if !tests
            .iter()
            .any(|test| test.id == *name || means(name, test))
        {
            unknown("test", name, &tests)?;
        }
    }
    if let Some(family) = family
        && !tests.iter().any(|test| means(family, test))
    {
        unknown("family", family, &tests)?;
    }
    let chosen = |test: &Test| {
        all || family.is_some_and(|family| means(family, test))
            || (names.iter()).any(|name| test.id == *name || means(name, test))
    };
    Ok(tests.into_iter().filter(chosen).collect())
}

/// Whether this is the test's family, or a number that it is about.
fn means(name: &str, test: &Test) -> bool {
    test.family == name || canonical(name).is_some_and(|number| test.is_about(&number))
}

fn unknown(kind: &str, name: &str, tests: &[Test]) -> Result<()> {
    if canonical(name).is_some() {
        bail!(
            "no {kind} is named {name}, and no test is about a statement or section of that number; \
             docs/conformance/suite.md lists those that there are"
        );
    }
    let known: Vec<&str> = match kind {
        "test" => tests.iter().map(|test| test.id.as_str()).collect(),
        _ => tests.iter().map(|test| test.family).collect(),
    };
    match catalog::nearest(name, known.into_iter()) {
        Some(near) => bail!("no {kind} is named {name}; did you mean {near}?"),
        None => bail!("no {kind} is named {name}; `ferroce-ibta list` lists them"),
    }
}
