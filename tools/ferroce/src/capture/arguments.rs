//! The command line of `ferroce capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

/// Bytes that are kept of a packet, if nothing else is said: all.
const WHOLE: u32 = 1 << 17;

pub(crate) const EXAMPLES: &str = "\
EXAMPLES:
  ferroce capture
  ferroce capture -w x.pcapng --for 10s
  ferroce capture | wireshark -k -i -
  ferroce capture --program rping --verbs
  ferroce capture --json -w x.pcapng | jq .opcode";

/// `ferroce capture`.
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Write pcapng, for Wireshark and others, to a file, or to standard output if it is `-`
    /// [default: standard output, or --text where that is a terminal]
    #[arg(short = 'w', long = "write", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,

    /// A line of text for each packet, wherever it goes
    #[arg(long, conflicts_with = "write")]
    pub text: bool,

    /// A JSON object for each packet, one a line, on standard output; with -w FILE beside what is
    /// written there
    #[arg(long, conflicts_with = "text")]
    pub json: bool,

    /// Only packets from or to the queue pair of this number, 0x for hexadecimal; may be repeated
    #[arg(long = "qp", value_name = "N", value_parser = number)]
    pub qps: Vec<u32>,

    /// Only what programs of this name send and receive, as `ferroce status` has it; `ferroced` is
    /// who manages connections. May be repeated
    #[arg(long = "program", value_name = "NAME")]
    pub programs: Vec<String>,

    /// Also what programs post and what is completed, and states of queue pairs: events among the
    /// packets, in Wireshark as entries of a journal
    #[arg(long)]
    pub verbs: bool,

    /// Show a packet from one program of the device to another twice: as it was sent, and as it
    /// came [default: as it was sent]
    #[arg(long)]
    pub both: bool,

    /// Keep so many bytes of each packet, 12 or more, from the transport header on [default: all]
    #[arg(long, value_name = "BYTES", default_value_t = WHOLE, hide_default_value = true, value_parser = clap::value_parser!(u32).range(12..))]
    pub snaplen: u32,

    /// End after so many packets
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// End after this time, such as 10s, 500ms or 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub time: Option<Duration>,

    /// Buffer of each program in MiB, 1 to 1024: what finds no room there is dropped
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer: u32,
}

pub(crate) fn number(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match number {
        Ok(number) if number < 1 << 24 => Ok(number),
        _ => Err("a queue pair's number is 0 to 0xffffff".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => Some(1.0),
        "ms" => Some(0.001),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let time = unit.zip(digits.parse::<f64>().ok());
    let time = time.and_then(|(unit, n)| Duration::try_from_secs_f64(unit * n).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "a time is a number and ms, s, m or h, as in 10s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_numbers_bases() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "-1s", "0", "1d", "1e30h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!((number("0x1f"), number("31")), (Ok(31), Ok(31)));
        for wrong in ["", "0x", "0x1000000", "-1", "qp"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }
}
