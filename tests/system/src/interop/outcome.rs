//! What the runner inside the guest says of each run: a line of JSON in a file that it shares with
//! us.

use serde_json::{Value, json};

use super::field::{Family, Side};
use super::setting::Setting;
use crate::harness::case::{Ending, Stop};

/// How one run ended.
pub(super) struct Outcome {
    /// The program, with its options.
    pub program: String,
    /// The circumstances.
    pub setting: Setting,
    /// Nothing if it went well.
    pub ending: Ending,
    /// How long it took.
    pub seconds: f64,
}

impl Outcome {
    /// As a line.
    pub(super) fn line(self) -> String {
        let (verdict, why) = match self.ending {
            Ok(()) => ("ok", String::new()),
            Err(Stop::Skip(why)) => ("skipped", why),
            Err(stop) => ("failed", format!("{:#}", stop.into_error())),
        };

        json!({
            "program": self.program,
            "server": self.setting.server.name(),
            "family": self.setting.family.name(),
            "mtu": self.setting.mtu,
            "bad": self.setting.bad,
            "verdict": verdict,
            "why": why,
            "seconds": self.seconds,
        })
        .to_string()
    }

    /// From a line; none if it is not one, as the last may be when the guest was ended.
    pub(super) fn read(line: &str) -> Option<Outcome> {
        let value: Value = serde_json::from_str(line).ok()?;
        let why = || value["why"].as_str().unwrap_or_default().to_owned();
        let ending = match value["verdict"].as_str()? {
            "ok" => Ok(()),
            "skipped" => Err(Stop::Skip(why())),
            _ => Err(Stop::fail(why())),
        };

        let named = |name: &str, all: &[&'static str]| all.iter().position(|one| *one == name);
        let sides = [Side::Rxe, Side::Ferroce];
        let families = [Family::V4, Family::V6];
        Some(Outcome {
            program: value["program"].as_str()?.to_owned(),
            setting: Setting {
                server: sides[named(value["server"].as_str()?, &sides.map(Side::name))?],
                family: families[named(value["family"].as_str()?, &families.map(Family::name))?],
                mtu: u32::try_from(value["mtu"].as_u64()?).ok()?,
                bad: value["bad"].as_bool()?,
            },
            ending,
            seconds: value["seconds"].as_f64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_it_all() {
        let setting = Setting {
            server: Side::Rxe,
            family: Family::V6,
            mtu: 9000,
            bad: true,
        };

        for why in [None, Some("two\nlines")] {
            let line = Outcome {
                program: "rping".to_owned(),
                setting,
                ending: why.map_or(Ok(()), |why| Err(Stop::fail(why))),
                seconds: 1.5,
            }
            .line();
            assert!(!line.contains('\n'));
            let back = Outcome::read(&line).unwrap();
            assert_eq!((back.program.as_str(), back.setting), ("rping", setting));
            assert_eq!(back.ending.is_err(), why.is_some());
            assert!(Outcome::read(&line[..line.len() / 2]).is_none());
        }
    }
}
