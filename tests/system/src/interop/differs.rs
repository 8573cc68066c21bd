//! What rdma_rxe of Linux 6.1 does otherwise, and what is therefore not run between it and ferroce:
//! `differs.toml`, of which the tables of `docs/conformance/rdma-rxe.md` and `docs/interop.md` are
//! made.

use std::sync::LazyLock;

use serde::Deserialize;

use super::field::Side;
use crate::pages::row;

static DIFFERS: LazyLock<Differs> =
    LazyLock::new(|| toml::from_str(include_str!("differs.toml")).expect("a test reads it"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Differs {
    run: Runs,
    test: Vec<Test>,
    difference: Vec<Difference>,
}

/// Runs that are skipped whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Runs {
    asks_too_soon: Run,
    no_xrc: Run,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    what: String,
    r#where: String,
    why: String,
}

/// A test of a C program that rdma_rxe does not pass, because it does something else than the
/// specification or has something not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    program: String,
    test: String,
    /// The second process of the test, if it is that which rdma_rxe cannot be, or the first.
    server: Option<Side>,
    why: String,
}

/// What the two do, by clause of the specification.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    what: String,
    clause: String,
    rxe: String,
    ferroce: String,
}

/// Why a test of a C program is not run with this side as its second process; `None`: it is.
pub(crate) fn skipped(program: &str, test: &str, server: Side) -> Option<&'static str> {
    let differs = DIFFERS.test.iter().find(|differs| {
        (&*differs.program, &*differs.test) == (program, test)
            && differs.server.is_none_or(|side| side == server)
    });
    differs.map(|differs| &*differs.why)
}

/// Why perftest's `-R` is not run over a bad network where rdma_rxe serves; ferroce as the server
/// waits a moment for the next listener.
pub(crate) fn asks_too_soon() -> &'static str {
    &DIFFERS.run.asks_too_soon.why
}

/// Why XRC is not run.
pub(crate) fn no_xrc() -> &'static str {
    &DIFFERS.run.no_xrc.why
}

/// All that is skipped, as a table.
pub(crate) fn skips() -> String {
    let mut table = row(&["run", "where", "why"]) + "|---|---|---|\n";
    for Test {
        program,
        test,
        server,
        why,
    } in &DIFFERS.test
    {
        let place = match server {
            Some(Side::Rxe) => "rxe serves",
            Some(Side::Ferroce) => "ferroce serves",
            None => "everywhere",
        };
        table += &row(&[&format!("`{program}.c` `{test}`"), place, why]);
    }

    let Runs {
        asks_too_soon,
        no_xrc,
    } = &DIFFERS.run;
    for run in [asks_too_soon, no_xrc] {
        table += &row(&[&run.what, &run.r#where, &run.why]);
    }
    table
}

/// All differences, as a table.
pub(crate) fn differences() -> String {
    let mut table = row(&["what", "clause", "rdma_rxe of Linux 6.1", "ferroce"]);
    table += "|---|---|---|---|\n";
    for Difference {
        what,
        clause,
        rxe,
        ferroce,
    } in &DIFFERS.difference
    {
        table += &row(&[what, clause, rxe, ferroce]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_decides() {
        let why = skipped("data", "send_with_invalidate", Side::Rxe);
        assert!(why.is_some_and(|why| why.contains("could not invalidate")));
        assert!(skipped("data", "send_with_invalidate", Side::Ferroce).is_none());
        assert!(skipped("data", "no_such", Side::Rxe).is_none());
        assert!(!asks_too_soon().is_empty() && !no_xrc().is_empty());
    }
}
