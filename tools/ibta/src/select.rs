//! Which tests a command means.

use anyhow::{Result, bail};
use ferroce_ibta::catalog::{self, Test};
use ferroce_ibta::statement::canonical;
use ferroce_ibta::suite;
use std::str::FromStr;

/// A part of the tests: of `2/3` every third, from the second on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    nth: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/');
        let numbers = numbers.and_then(|(nth, of)| Some((nth.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((nth, of)) if (1..=of).contains(&nth) => Ok(Shard { nth, of }),
            _ => Err("a part is written 1/3, 2/3 or 3/3".to_owned()),
        }
    }
}

impl Shard {
    /// The tests of the part.
    ///
    /// # Errors
    /// There are none, as there are more parts than tests: whoever is told that none failed takes
    /// something for tested.
    pub(crate) fn of(self, tests: Vec<Test>) -> Result<Vec<Test>> {
        let Shard { nth, of } = self;
        let chosen = tests.len();
        let mine: Vec<Test> = tests.into_iter().skip(nth - 1).step_by(of).collect();
        if mine.is_empty() {
            bail!(
                "tests that are chosen: {chosen}, and none of them is in part {nth}/{of}; \
                 choose more tests, or fewer parts"
            );
        }
        Ok(mine)
    }
}

/// The tests that there are to choose from: the suite's, or those of the documents as they are
/// written.
pub(crate) fn catalogue(as_written: bool) -> Vec<Test> {
    match as_written {
        true => suite::as_written::all(),
        false => suite::all(),
    }
}

/// Of `tests` those of these names, those of this family, or all. A number in place of a name or a
/// family stands for every test of that family, and every test about that statement or section.
///
/// # Errors
/// A name that nothing has, with the one that is most like it.
pub(crate) fn select(
    tests: Vec<Test>,
    names: &[String],
    family: Option<&str>,
    all: bool,
) -> Result<Vec<Test>> {
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

/// Whether tests may be left out that need a cable, where there is none: not those that were asked
/// for by name, and not if they are all that was `chosen`, before it was divided into parts.
///
/// # Errors
/// They may not; says what to give.
pub(crate) fn without_cables(tests: &[Test], names: &[String], all_chosen: bool) -> Result<()> {
    let mut named = tests.iter().filter(|test| names.contains(&test.id));
    if let Some(test) = named.find(|test| test.is_of_management()) {
        match test.ports {
            1 => bail!(
                "{} needs a cable to an InfiniBand port of the device: add --cable LOCAL=REMOTE",
                test.id
            ),
            ports => bail!(
                "{} needs cables to {ports} InfiniBand ports of the device: add --cable LOCAL=REMOTE for each",
                test.id
            ),
        }
    }

    if all_chosen {
        bail!(
            "all tests that are chosen need a cable to an InfiniBand port of the device: \
             add --cable LOCAL=REMOTE"
        );
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_all_and_none_twice() {
        let all = suite::all().len();
        let parts = ["1/3", "2/3", "3/3"].map(|part| part.parse::<Shard>().unwrap());
        let mut ids: Vec<String> = parts
            .iter()
            .flat_map(|part| part.of(suite::all()).unwrap())
            .map(|test| test.id)
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn tests_as_written_are_chosen_from_by_themselves() {
        let ids = |as_written, names: &[String], all| -> Vec<String> {
            let chosen = select(catalogue(as_written), names, None, all).expect("they are there");
            chosen.into_iter().map(|test| test.id).collect()
        };
        let all = suite::all().into_iter().map(|test| test.id);
        assert_eq!(ids(false, &[], true), all.collect::<Vec<_>>());
        assert_eq!(ids(true, &[], true).len(), 7);
        let one = ["C09_142_01".to_owned()];
        assert_eq!(ids(true, &one, false), one);
        let statement = ["C9-142".to_owned()];
        assert_eq!(ids(true, &statement, false), one);
        let other = ["C09_142_SEND".to_owned()];
        assert!(select(catalogue(true), &other, None, false).is_err());
    }

    #[test]
    fn a_part_without_tests_is_refused() {
        let one = || select(suite::all(), &["C09_142_01".to_owned()], None, false).unwrap();
        let part = |part: &str| part.parse::<Shard>().unwrap().of(one());
        assert_eq!(part("1/3").unwrap().len(), 1);
        let why = part("2/3").err().expect("nothing is left").to_string();
        assert!(why.contains("chosen: 1") && why.contains("2/3"), "{why}");
    }

    #[test]
    fn tests_without_cables_are_left_out_among_others_only() {
        let cabled = || select(suite::all(), &[], Some("C14-024"), false).unwrap();
        let name = |name: &str| [name.to_owned()];
        assert!(without_cables(&cabled(), &name("C14-24"), true).is_err());
        assert!(without_cables(&cabled(), &[], true).is_err());

        // A part of them all, which happens to have none of the transport.
        assert!(without_cables(&cabled(), &[], false).is_ok());
        assert!(without_cables(&cabled(), &name("C09_142_01"), false).is_ok());
        let why = without_cables(&cabled(), &name("C14_024_06_CA_04"), false);
        let why = why.expect_err("it was asked for").to_string();
        assert!(why.contains("C14_024_06_CA_04 needs cables to 2"), "{why}");
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "1", "0/3", "4/3", "1/0", "a/b", "-1/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
