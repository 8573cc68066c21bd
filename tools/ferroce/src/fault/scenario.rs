//! Scenario files: several faults in one TOML file, for runs that are repeated.

use std::path::Path;

use ferroce_control::faults::{Fault, Options};
use ferroce_control::random::random;
use serde::Deserialize;

use crate::error::Error;

/// A file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Scenario {
    /// For faults that have none.
    seed: Option<u32>,
    /// In the order in which they are added.
    #[serde(default)]
    fault: Vec<Options>,
}

/// The faults of a file.
pub(super) fn read(file: &Path) -> Result<Vec<Fault>, Error> {
    let text = std::fs::read_to_string(file).map_err(Error::io(file.display().to_string()))?;
    parse(&text).map_err(|why| Error::Usage(format!("{}: {why}", file.display())))
}

fn parse(text: &str) -> Result<Vec<Fault>, String> {
    let scenario: Scenario = toml::from_str(text).map_err(|error| error.to_string())?;
    if scenario.fault.is_empty() {
        return Err("there is no table [[fault]] in it".to_owned());
    }

    // Two faults of one seed would hit the same packets.
    let first = u64::from(scenario.seed.unwrap_or_else(random));
    let faults = scenario.fault.iter().zip(0_u64..);
    faults
        .map(|(options, nth)| {
            let fault = options.fault(first + nth);
            fault.map_err(|why| format!("fault {} of the file: {why}", nth + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_control::faults::{Action, Share};

    #[test]
    fn a_file_has_the_options_of_the_command_line() {
        let faults = parse(
            r#"
            seed = 7
            [[fault]]
            loss = "1%"
            qp = 0x2aa3b
            for = "10s"
            [[fault]]
            drop = "opcode=ACK and psn%64=3"
            in = true
            count = 2
            [[fault]]
            alloc-fail = "create_qp=EAGAIN"
            seed = 1
            [[fault]]
            duplicate = true
            "#,
        )
        .unwrap();
        let seeds: Vec<u64> = faults.iter().map(|fault| fault.seed).collect();
        assert_eq!(seeds, [7, 8, 1, 10]);
        assert_eq!(faults[0].often.rate, "1%".parse::<Share>().unwrap());
        assert_eq!(faults[0].whom.qp.map(|qp| qp.0), Some(0x2aa3b));
        assert!(faults[1].whom.packets.is_some() && faults[3].action == Action::Duplicate);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        for (text, words) in [
            ("", &["[[fault]]"][..]),
            (
                "[[fault]]\nlos = '1%'",
                &["line 2", "unknown field `los`", "`loss`"],
            ),
            ("[[fault]]\nloss = '1'", &["line 2", "`1` is no share"]),
            ("[[fault]]\ndrop = 'psn~3'", &["line 2", "wanted: `=`"]),
            (
                "[[fault]]\nrnr = true\n[[fault]]\nqp = 1",
                &["fault 2", "what is to go wrong"],
            ),
            (
                "[[fault]]\nrnr = true\nreorder = true",
                &["fault 1", "--reorder and --rnr are two"],
            ),
            (
                "[[fault]]\ncm-reject = 28\nqp = 1",
                &["fault 1", "--qp means nothing to --cm-reject"],
            ),
        ] {
            let error = parse(text).unwrap_err();
            for word in words {
                assert!(error.contains(word), "{text}: {error}");
            }
        }
    }
}
