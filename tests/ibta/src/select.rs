//! Which tests a command means.

use anyhow::{Result, bail};
use ferroce_ibta::catalog::{self, Test};

/// The tests of these names and of this family, or all.
///
/// # Errors
/// A name that no test or family has, with the one that is most like it.
pub fn select(ids: &[String], family: Option<&str>, all: bool) -> Result<Vec<Test>> {
    let tests = catalog::all();
    for id in ids {
        if !tests.iter().any(|test| test.id == *id) {
            unknown("test", id, tests.iter().map(|test| test.id.as_str()))?;
        }
    }
    if let Some(family) = family
        && !tests.iter().any(|test| test.family == family)
    {
        unknown("family", family, tests.iter().map(|test| test.family))?;
    }
    let chosen = |test: &Test| all || family == Some(test.family) || ids.contains(&test.id);
    Ok(tests.into_iter().filter(chosen).collect())
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Result<()> {
    match catalog::nearest(name, known) {
        Some(near) => bail!("no {kind} is named {name}; did you mean {near}?"),
        None => bail!("no {kind} is named {name}; `ferroce-ibta list` lists them"),
    }
}
