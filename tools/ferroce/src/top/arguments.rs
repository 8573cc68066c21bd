//! What `ferroce top` is told.

use std::time::Duration;

use clap::Args;

/// The shortest time between two samples: a shorter one would say nothing of rates.
const SHORTEST: Duration = Duration::from_millis(50);

/// `ferroce top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The time between two samples, at least 50ms: seconds, or with a unit (`500ms`, `2s`, `1m`)
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub interval: Duration,

    /// Print tables, one after the other, instead of a screen
    #[arg(short, long)]
    pub batch: bool,

    /// End after so many samples [default: go on until ended]
    #[arg(short = 'n', long, value_name = "COUNT", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Print each sample as a JSON object in a line of its own
    #[arg(long, requires = "batch")]
    pub json: bool,
}

/// A time with its unit, or seconds.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        unit => return Err(format!("`{unit}` is no unit of time: ms, s or m")),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "a number is wanted, as in 500ms or 2s".to_owned())?;

    let time = Duration::try_from_secs_f64(number * seconds);
    let time = time.map_err(|error| error.to_string())?;
    match time >= SHORTEST {
        true => Ok(time),
        false => Err("the shortest interval is 50ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in [
            ("1", 1000),
            ("0.5", 500),
            ("50ms", 50),
            ("2s", 2000),
            ("1m", 60_000),
            ("1.5s", 1500),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "s", "10ms", "0", "-1s", "1h", "1e30", "NaN", "1 s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
