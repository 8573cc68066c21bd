//! The command line and its help.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use ferroce_manual::For;

use crate::capture::arguments::{self as capture, Capture};
use crate::cdi::arguments::Cdi;
use crate::env::arguments::{self as env, Env};
use crate::fault::arguments::Fault;
use crate::replay::arguments::{self as replay, Replay};
use crate::system::arguments::System;
use crate::top::arguments::Top;

const AFTER_HELP: &str = "\
ENVIRONMENT:
  FERROCE_RUNTIME_DIR  The runtime directory, if --runtime-dir is not given.
  XDG_RUNTIME_DIR      Its subdirectory `ferroce` is used if neither is given, unless it is another user's.
  FERROCE_LOOPBACK     `off`: programs send packets for others of the same device over sockets, not through memory.
  FERROCE_IO_URING     `off`: programs receive with poll(2).
  FERROCE_GSO          `off`: each packet leaves by itself, so that a capture on an interface shows it so, too.
  FERROCE_RECOVERY     `automatic`, and by default: where packets are lost on the way between hosts of ferroce only
                       those are sent again; `go-back-n`: all that came after them, as InfiniBand has it;
                       `selective`: as automatic, and every peer is shown so, by a bit that others ignore.
  FERROCE_LOG          What the daemon logs, by default `info`; and what programs say on standard error, by default
                       nothing: `debug` why a verb is refused, states, errors and retransmissions of queue pairs,
                       `trace` every packet, `ferroce_provider=debug` or `ferroce_transport=trace` one part alone.
  Of a value that means nothing programs say so on standard error, and go by the default.

FILES:
  DIR/ferroced.sock    Where the daemon answers; DIR is the runtime directory.
  DIR/ferroced.log     The log of a daemon in the background; beyond 4 MiB it becomes ferroced.log.1.
  DIR/ferroced.toml    How the device is configured, for `run` to start it again should the daemon die.
  DIR/sys, DIR/dev     What programs see in place of /sys/class/infiniband* and /dev/infiniband.
  $XDG_CONFIG_HOME/ferroce/ferroce.toml, /etc/ferroce/ferroce.toml
                       Settings: addr, netdev, link_layer, cable, name, idle_exit,
                       receive_buffer, stretch_timeouts, congestion, group, log.
  /run/ferroce         The runtime directory of the machine's own device (`ferroce system`).

EXIT STATUS:
  0 if all went well, 1 if not, 2 if the command line makes no sense. `ferroce run` has the exit status
  of the program that it runs, 127 if there is no such program and 126 if it cannot be run;
  `ferroce replay` has 3 where the transport does something else than the capture shows.

EXAMPLES:
  ferroce run -- ibv_devinfo -v
  ferroce up --addr 127.0.0.1
  ferroce run -- ib_write_bw & ferroce run -- ib_write_bw 127.0.0.1
  ferroce --runtime-dir /tmp/b up --addr 127.0.0.2
                       A second host, as it were, on the same machine.";

/// An RDMA device in software: run unmodified RDMA programs on any Linux machine.
///
/// Programs started by `ferroce run` see a device named ferroce0, which speaks RoCEv2 (InfiniBand
/// transport over UDP port 4791). No kernel module, no network adapter of a certain kind, and no
/// privileges are needed. What is common to all programs of a host is kept by a daemon, ferroced;
/// `run` starts it if need be.
#[derive(Debug, Parser)]
#[command(name = "ferroce", version, max_term_width = 100, after_long_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Where the daemon and the programs meet; one daemon and one device each [default:
    /// $FERROCE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/ferroce, else /run/ferroce for root and
    /// /tmp/ferroce-UID for others]. It must be empty, missing, or ferroce's, and no other user may
    /// be able to change it or what is above it
    #[arg(long, value_name = "DIR", global = true, value_hint = ValueHint::DirPath)]
    pub runtime_dir: Option<PathBuf>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the daemon and wait until it is ready
    ///
    /// If it cannot start, its reason is printed and the exit status is 1. Settings that are not
    /// given come from a configuration file (see `ferroce --help`).
    Up(Up),
    /// Stop the daemon
    ///
    /// Programs that use the device see it fail. If the daemon has died, what it was configured
    /// with is forgotten.
    Down,
    /// Run a program that sees the device
    ///
    /// If there is no daemon, one is started with the settings of the configuration file; it leaves
    /// by itself when nobody has used it for a while. One that has died is started as it was. The
    /// program and those that it starts find the device through LD_PRELOAD, RDMAV_DRIVERS and
    /// FERROCE_RUNTIME_DIR in their environment; what the first two held before is kept. Real
    /// devices stay visible.
    ///
    /// A program that is linked statically, or setuid, setgid or with file capabilities, has no use
    /// for LD_PRELOAD: it is executed all the same, after a sentence on standard error.
    ///
    /// The runtime of a sanitizer (-fsanitize=address, thread) that the program needs as a shared
    /// library, as with gcc or clang's -shared-libsan, is put first in LD_PRELOAD, as it insists
    /// on; for ThreadSanitizer TSAN_OPTIONS gets ignore_noninstrumented_modules=1. Where a script
    /// starts such a program, both have to be set there.
    Run(Run),
    /// Print what `run` sets, for a shell in which all programs are to see the device
    ///
    /// `eval "$(ferroce env)"` in sh, bash or zsh (fish and csh have options below); then
    /// `ib_write_bw` finds the device as it does under `ferroce run`. If there is no daemon, one is
    /// started as by `run`. LD_PRELOAD and RDMAV_DRIVERS keep what they held, and evaluated again
    /// nothing is there twice.
    ///
    /// The daemon then stays until `ferroce down`, also one that `run` had started: nobody can tell
    /// when the shell will start a program. Where it has gone all the same, programs see no device
    /// and say so in their own words (`Failed to get IB devices list`, `No RDMA devices were
    /// detected`): `ferroce env`, evaluated again, starts it again.
    ///
    /// What `run` does for a program of its own (sanitizers, and a word to who starts one that
    /// ignores LD_PRELOAD) is not done here.
    #[command(after_long_help = env::EXAMPLES)]
    Env(Env),
    /// Be an InfiniBand switch, in the foreground
    ///
    /// Its ports have cables to those of devices (`ferroce up --link-layer infiniband`) and of
    /// other switches. A subnet manager somewhere on the fabric configures it:
    /// `ferroce run -- opensm`.
    Switch(Switch),
    /// Wait until a server listens, or without a port until the device's ports are active
    ///
    /// For scripts that start a server in the background and then its client:
    /// `ferroce run -- ib_write_bw & ferroce wait 18515; ferroce run -- ib_write_bw 127.0.0.1`.
    /// The port of perftest is 18515, that of the pingpongs 18515, that of rping 7174. Nobody is
    /// connected to, so a server that takes one client alone is left to its own. The exit status is
    /// 1 where the time is over.
    Wait(Wait),
    /// Have things go wrong on command: lost packets, refused requests, a port that goes down
    #[command(subcommand)]
    Fault(Fault),
    /// Let containers have the device (Container Device Interface)
    #[command(subcommand)]
    Cdi(Cdi),
    /// Offer the device to pods, as a device plugin of Kubernetes' kubelet
    ///
    /// Executes `ferroce-k8s-device-plugin`, which is installed beside this program; `ferroce
    /// k8s-device-plugin --help` has its options.
    #[command(disable_help_flag = true)]
    K8sDevicePlugin {
        /// Its options
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "OPTION"
        )]
        options: Vec<OsString>,
    },
    /// Show the device, its addresses, the programs that use it, and counters
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what programs do with the device, as it happens, and what may be wrong where they hang
    ///
    /// Programs, queue pairs, completion queues, memory regions and ports, with their rates; a
    /// queue pair's details with Enter, and all keys with `h`. What is wrong, or may be, is named
    /// in the last column. Only the user's own programs are shown, to root all. With NO_COLOR set
    /// there are no colours.
    Top(Top),
    /// A device of the machine's, which programs see without `ferroce run`
    #[command(subcommand)]
    System(System),
    /// Look at what the device needs of this machine, and say what to do
    ///
    /// A line for each thing: `ok`, `note` where the device works but is slower than it could be or
    /// something is missing for some programs, `bad` where it does not work or no program finds it;
    /// the exit status is then 1. Nothing is changed, and no daemon is needed.
    Doctor {
        /// Print a JSON array of objects: check, state (`ok`, `note`, `bad`), found, advice
        #[arg(long)]
        json: bool,
    },
    /// Print what there is and what is counted, for Prometheus and others that read OpenMetrics
    ///
    /// The sums over all programs, those that have ended included; the counters of ports are a
    /// second old at most. There is no password: who reaches the address reads what `status` shows.
    Metrics {
        /// Answer over HTTP at /metrics instead, until ended, also while there is no daemon
        /// (ferroce_up is 0 then); port 0 lets the system choose one, which is printed
        #[arg(long, value_name = "IP:PORT")]
        listen: Option<SocketAddr>,
    },
    /// Show the packets that programs send and receive, for Wireshark or for reading
    ///
    /// Those between programs of the device, which go through memory, too, as they would be on a
    /// wire; each is one packet, whatever left as one. No privileges are needed: a user sees what
    /// his own programs do, root and the daemon's user all. Programs never wait: what finds no room
    /// is dropped and counted.
    ///
    /// It ends with SIGINT, SIGTERM, or when nobody reads any more, and says how many packets there
    /// were.
    #[command(after_long_help = capture::EXAMPLES)]
    Capture(Capture),
    /// Feed a capture to the transport again, and show step by step what it does
    ///
    /// The queue pairs of the capture are made anew, without sockets and in the capture's time.
    /// They are given the packets and requests that the capture has, and what they send and
    /// complete is compared with it. Each step shows what changed in the queue pair. With
    /// `--verbs --both` a capture has all that is needed; of others' (tcpdump, Wireshark) as much
    /// is replayed as they allow. No daemon is needed.
    #[command(after_long_help = replay::EXAMPLES)]
    Replay(Replay),
    /// List the RDMA devices that `ferroce run` shows to programs
    Devices {
        /// Instead, load libibverbs as a program would, and say which it is and whether there is a
        /// driver for its private ABI; the exit status is 1 if not
        #[arg(long)]
        check: bool,
        /// Print a JSON array of objects, one for each port; `ferroce status --json` has those of
        /// the device as `ports`
        #[arg(long, conflicts_with = "check")]
        json: bool,
    },
    /// Print the completions of this command for a shell
    ///
    /// Packages and `cargo xtask install` have put them where the shell looks. Elsewhere:
    /// `eval "$(ferroce completions bash)"` in ~/.bashrc, the same with zsh in ~/.zshrc after
    /// compinit, `ferroce completions fish | source` in fish's configuration.
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: For,
    },
    /// Write manual pages and completions of this command below a directory
    #[command(hide = true)]
    Manual {
        /// Where to
        dir: PathBuf,
    },
}

/// `ferroce up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// An address to serve, IPv4 or IPv6 (fe80::1%eth0 with its interface); may be repeated.
    /// Addresses that are given are fixed [default: those of --netdev]. Of InfiniBand ports the
    /// first is the first cable's, and so on, by which rdma_cm finds the port; the host need not
    /// have it [default: none]
    #[arg(long, value_name = "IP")]
    pub addr: Vec<String>,

    /// The interface whose addresses to serve, as they come and go, and whose link is the port's
    /// [default: none, and an address of the loopback interface, for programs of this machine:
    /// 127.0.0.1, or the first of 127.47.91.1 to 254 whose port 4791 is free]
    #[arg(long, value_name = "IF")]
    pub netdev: Option<String>,

    /// What the ports are: `ethernet` (RoCEv2 at an interface's addresses) or `infiniband` (over
    /// cables) [default: ethernet]
    #[arg(long, value_name = "KIND")]
    pub link_layer: Option<String>,

    /// The cable of an InfiniBand port: our UDP endpoint and the one at the other end, as in
    /// 127.0.0.1:7101=127.0.0.2:7101; one for each port
    #[arg(long, value_name = "LOCAL=REMOTE")]
    pub cable: Vec<String>,

    /// The device's name [default: ferroce0]
    #[arg(long)]
    pub name: Option<String>,

    /// A TOML file with settings, used instead of the usual ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Leave after so many seconds without programs; 0: stay. Those that only look are none:
    /// `ferroce status`, `top`, `metrics` and `wait` [default: stay]
    #[arg(long, value_name = "SECS")]
    pub idle_exit: Option<u64>,

    /// Wait N times as long as programs and peers ask for before a packet or a message of
    /// connection management counts as lost, 1 to 10000 [default: 1]
    ///
    /// For programs that somebody stops: without it a peer that a debugger, SIGSTOP or the pause of
    /// a virtual machine holds for some seconds is lost (IBV_WC_RETRY_EXC_ERR at the other end).
    /// What is really lost is sent again so much later, too. Nothing that programs set or ask for
    /// looks different.
    #[arg(long, value_name = "N")]
    pub stretch_timeouts: Option<u32>,

    /// How programs answer when the network is full: `aimd` or `dcqcn` [default: aimd]
    ///
    /// `aimd`: by a window for each path, which shrinks on losses and growing round trips. `dcqcn`:
    /// by a rate, too. What is sent by connections is marked as capable of ECN, and the rate falls
    /// where switches mark it and the peer says so, as adapters do.
    #[arg(long, value_name = "KIND")]
    pub congestion: Option<String>,

    /// Stay in the foreground and log to standard error
    #[arg(long)]
    pub foreground: bool,
}

impl Up {
    /// Whether it says where the device is to be.
    pub(crate) fn says_where(&self) -> bool {
        !self.addr.is_empty() || self.netdev.is_some() || self.config.is_some()
    }
}

/// `ferroce switch`.
#[derive(Debug, Args)]
pub(crate) struct Switch {
    /// How many ports, 1 to 254
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub ports: u8,

    /// The cable of a port, from port 1 on: our UDP endpoint and the one at the other end, as in
    /// 127.0.1.1:7101=127.0.0.1:7101
    #[arg(long, value_name = "LOCAL=REMOTE")]
    pub cable: Vec<String>,

    /// Its name, as in a node description [default: ferroce switch]
    #[arg(long)]
    pub name: Option<String>,
}

/// `ferroce run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Seconds without programs after which a daemon that is started now leaves; 0: it stays
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub idle_exit: u64,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// `ferroce wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// The server's port: of TCP, on this machine, or of rdma_cm, at the device [default: none; the
    /// device's ports are to become active, InfiniBand ones by a subnet manager]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// For how many seconds
    #[arg(long, value_name = "SECS", default_value_t = 30)]
    pub timeout: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_of_the_program_are_left_alone() {
        for line in [
            &[
                "ferroce",
                "run",
                "--",
                "ib_write_bw",
                "-a",
                "--runtime-dir",
                "x",
            ][..],
            &["ferroce", "run", "ib_write_bw", "-a", "--runtime-dir", "x"],
        ] {
            let arguments = Arguments::try_parse_from(line).unwrap();
            assert!(arguments.runtime_dir.is_none());
            let Command::Run(run) = arguments.command else {
                panic!("not run")
            };
            assert_eq!(run.command, ["ib_write_bw", "-a", "--runtime-dir", "x"]);
        }

        let line = [
            "ferroce",
            "up",
            "--addr",
            "127.0.0.1",
            "--addr",
            "::1",
            "--runtime-dir",
            "/x",
        ];

        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.runtime_dir.as_deref(), Some("/x".as_ref()));
    }
}
