//! Group `ibta`, the documents' tests as they are written: on ferroce's own devices each ends as
//! its document has it, be that good or bad.

use std::time::Duration;

use super::{results, run_in, whole};
use crate::harness::case::{Case, Company, Ending, Parts, Stop, expect};
use crate::lab::Lab;

/// Seven tests, of which the longest takes five seconds; those that a machine that stands still
/// makes inconclusive are run again.
const LIMIT: Duration = Duration::from_secs(180);

/// How each ends on ferroce, and what it says. Client reregistration is at bit 25 there, as in the
/// published specification, and in these documents at bit 4.
const DUE: &[(&str, &str, &str)] = &[
    ("C09_060_09", "PASS", ""),
    ("C09_142_01", "PASS", ""),
    ("C14_024_06_CA_04", "PASS", ""),
    ("O11_006_1_2", "N/A", "bit 4"),
    ("O14_013_01", "N/A", "bit 4"),
    ("O14_013_02", "FAIL", "o14-13.2.yy: ClientReregister is 1"),
    ("O14_013_03", "PASS", ""),
];

/// Those of the transport, which can be tried on a cable, too.
const OF_THE_TRANSPORT: &[&str] = &["C09_060_09", "C09_142_01"];

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("ibta/as written/every mutant is caught", |lab| {
            whole(lab, &["mutants", "--as-written"])
        }),
        Case::many("ibta/as written/ferroce0", |lab| {
            as_written(lab, &["--all"], DUE, 1)
        })
        .in_company(Company::InPairs),
        Case::many("ibta/as written/on a cable", |lab| {
            let due: Vec<_> = DUE
                .iter()
                .filter(|(id, ..)| OF_THE_TRANSPORT.contains(id))
                .copied()
                .collect();
            as_written(
                lab,
                &[OF_THE_TRANSPORT, &["--infiniband"]].concat(),
                &due,
                0,
            )
        })
        .in_company(Company::InPairs),
        Case::new("ibta/as written/none is the suite's", apart),
    ]
}

/// Tests as written, on a device that is started for them: each is a result here, and so is the
/// exit code.
fn as_written(lab: &mut Lab, which: &[&str], due: &[(&str, &str, &str)], code: i32) -> Parts {
    lab.vacate();
    let dir = lab.case_dir()?;
    let args = [&["run", "--as-written", "--json", "results.json"], which].concat();
    let finished = run_in(lab, &dir, &args, LIMIT)?;
    let tests = results(&dir.join("results.json")).map_err(|error| {
        let what = format!("no results: {error:#}");
        Stop::with(what, &[&finished])
    })?;

    let mut endings = Vec::new();
    for (id, result, words) in due {
        let test = tests.iter().find(|test| test["id"] == *id);
        let text = |name: &str| {
            test.and_then(|test| test[name].as_str())
                .unwrap_or_default()
        };
        let (ended, why) = (text("result"), text("reason"));
        let ending = expect(ended == *result && why.contains(words), || {
            format!("{ended:?} {why}; must be {result} and say {words:?}")
        });
        endings.push(((*id).to_owned(), ending));
    }

    endings.push((
        "no other test, and the exit code".to_owned(),
        match tests.len() == due.len() && finished.code() == Some(code) {
            true => Ok(()),
            false => Err(Stop::with(
                format!("{} tests are due, and exit code {code}", due.len()),
                &[&finished],
            )),
        },
    ));

    Ok(endings)
}

/// What a list and a run without the option have.
fn apart(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let suite = run_in(lab, &dir, &["list"], LIMIT)?;
    let written = run_in(lab, &dir, &["list", "--as-written"], LIMIT)?;
    let ids = |out: &str| -> Vec<String> {
        let words = out
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        words.map(str::to_owned).collect()
    };

    let due: Vec<_> = DUE.iter().map(|(id, ..)| (*id).to_owned()).collect();
    expect(ids(&written.out) == due, || {
        format!("the documents' tests are {due:?}, not {}", written.out)
    })?;
    let both: Vec<&str> = written
        .out
        .lines()
        .filter(|line| suite.out.lines().any(|of_suite| of_suite == *line))
        .collect();
    expect(both.is_empty() && ids(&suite.out).len() > 600, || {
        format!("the suite lists tests as written: {both:?}")
    })
}
