//! The command line of `ferroce fault`, and its help.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use ferroce_control::faults::Options;

/// What stands below the help of `ferroce fault add`.
const ADD: &str = "\
EXPRESSIONS:
  Comparisons of a packet's fields, joined by `and`, `or`, `not` and parentheses:
    opcode=ACK and psn%64=3          payload>1024 and not opcode=READ_RESPONSE
  opcode is compared (=, !=) with request, response, send, write, read, read_response, atomic, atomic_ack,
  atomic_write, flush, ack, nak, rnr_nak, cnp, a name such as RC_WRITE_LAST, or a number; service with rc, uc,
  ud, xrc. psn, qp (the packet's destination), length (BTH to ICRC), payload, ackreq and solicited are numbers,
  of which there are =, !=, <, <=, >, >= and the remainder of a division (psn%64).

EXAMPLES:
  ferroce fault add --loss 1% --qp 0x2aa3b
  ferroce fault add --delay '1ms±200us' --for 10s
  ferroce fault add --drop 'opcode=ACK and psn%64=3' --seed 7
  ferroce fault add --nth 17
  ferroce fault add --alloc-fail create_qp=EAGAIN --count 1
  ferroce fault clear";

/// `ferroce fault`.
#[derive(Debug, Subcommand)]
pub(crate) enum Fault {
    /// Have something go wrong, from now on
    ///
    /// Returns when every program that is attached goes by it, and names those that do not after a
    /// second; programs that are started later go by it from their beginning. What happens to a
    /// queue pair follows from the seed and from its own packets, so that a run with the same seed
    /// has the same. Without --in it is about packets that leave; between programs of one device,
    /// whose packets go through memory, too. See docs/faults.md for what each shows.
    #[command(after_long_help = ADD)]
    Add(Box<Add>),
    /// List the faults, and how often each has hit
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End a fault, or all of them
    Clear {
        /// Its number
        id: Option<u32>,
    },
    /// Add the faults of a scenario file
    ///
    /// A TOML file with a table `[[fault]]` for each, whose keys are the options of `ferroce fault
    /// add` without their dashes, and a `seed` for those that have none. All of them or, where one
    /// makes no sense, none.
    Load {
        /// The file
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Print the numbers as a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Wait until a fault has hit
    ///
    /// The exit status is 1 where the time is over.
    Wait {
        /// Its number
        id: u32,
        /// How often
        #[arg(long, value_name = "N", default_value_t = 1)]
        hits: u64,
        /// For how many seconds
        #[arg(long, value_name = "SECS", default_value_t = 30)]
        timeout: u64,
    },
}

/// `ferroce fault add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    pub options: Options,
    /// Print the fault as JSON, with its number
    #[arg(long)]
    pub json: bool,
}
