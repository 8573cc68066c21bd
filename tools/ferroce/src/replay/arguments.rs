//! The command line of `ferroce replay`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::capture::arguments::number;

pub(crate) const EXAMPLES: &str = "\
EXIT STATUS:
  0 if the transport did what the capture shows, 3 if there were differences, 1 if the file could not
  be read to its end, or not at all.

EXAMPLES:
  ferroce capture -w run.pcapng --verbs --both
  ferroce replay run.pcapng
  ferroce replay run.pcapng --differences
  ferroce replay run.pcapng --qp 0x1f1b2 --step
  ferroce replay run.pcapng --json | jq 'select(.verdict == \"differs\")'";

/// `ferroce replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A file of `ferroce capture`, tcpdump or Wireshark: pcapng or pcap
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Only the queue pair of this number, 0x for hexadecimal [default: all]
    #[arg(long, value_name = "N", value_parser = number)]
    pub qp: Option<u32>,

    /// Wait for the Enter key after each step
    #[arg(long, conflicts_with = "json")]
    pub step: bool,

    /// Only the steps in which the transport does something else
    #[arg(long)]
    pub differences: bool,

    /// End after so many steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub until: Option<u64>,

    /// Print a JSON object for each step, and one with the sums at the end
    #[arg(long)]
    pub json: bool,

    /// The queue pair's peer, where packets alone do not tell (of tcpdump, with several connections
    /// between two hosts)
    #[arg(long, value_name = "N", value_parser = number, requires = "qp")]
    pub peer: Option<u32>,

    /// Path MTU in bytes, where the capture does not say [default: as packets show, else 4096]
    #[arg(long, value_name = "BYTES", value_parser = path_mtu)]
    pub path_mtu: Option<u32>,

    /// Local ACK Timeout, 0 to 31, likewise [default: whenever packets are sent again]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub timeout: Option<u8>,

    /// Retries, 0 to 7, likewise [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub retry_cnt: Option<u8>,

    /// Retries after RNR NAKs, 0 to 7, likewise [default: 7, for ever]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub rnr_retry: Option<u8>,
}

fn path_mtu(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(mtu @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(mtu),
        _ => Err("a path MTU is 256, 512, 1024, 2048 or 4096".to_owned()),
    }
}
