//! What the machine can do with plain UDP, and with TCP connections: the yardstick of
//! `cargo xtask bench`. And what the engine takes for a packet, when no kernel is in the way.
//!
//! The bulk transfer moves packets of the size that RoCE gives them, cut by GSO and merged by GRO,
//! received by an io_uring multishot receive into provided buffers and copied into the memory that
//! they are meant for, with a bounded number of bytes in flight: everything that a RoCE
//! implementation over UDP has to do, and nothing of the transport (no keys, no PSNs, no ICRC). The
//! ping-pong polls at both ends.
//!
//! Each command prints one number to standard output, but for `line`, which is something to
//! measure over.

mod buffers;
mod connect;
mod copies;
mod engine;
mod line;
mod options;
mod pingpong;
mod receiver;
mod receives;
mod sender;
mod ways;
mod window;
mod word;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Bytes before the payload of each packet: a BTH.
pub const HEADER: usize = 12;
/// Bytes after it: an ICRC.
pub const TRAILER: usize = 4;
/// Most bytes of one datagram.
pub const MAX_DATAGRAM: usize = 65_507;
/// Most packets of one GSO send.
pub const MAX_SEGMENTS: usize = 64;

/// Memory of the payload, unless told otherwise: what a benchmark of 64 KiB messages has.
pub const MEMORY: usize = 64 << 10;

/// Packets of one GSO send with this payload.
pub fn segments(payload: usize) -> usize {
    (MAX_DATAGRAM / (HEADER + payload + TRAILER)).min(MAX_SEGMENTS)
}

/// What this thread has had of a processor, which others that want one do not change.
pub(crate) fn processor_time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid place for the result, and the clock exists in every thread.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[derive(Parser)]
#[command(about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Receive until the sender says that it is done; print the payload bytes per second
    Receive {
        /// Address to receive at
        address: SocketAddr,
        /// Payload bytes of a packet
        #[arg(long, default_value_t = 4096)]
        payload: usize,
        /// Bytes of memory that the payload goes to, one after the other and again
        #[arg(long, default_value_t = MEMORY)]
        memory: usize,
    },
    /// Send for some seconds
    Send {
        /// Where to
        address: SocketAddr,
        /// Payload bytes of a packet
        #[arg(long, default_value_t = 4096)]
        payload: usize,
        /// How long
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Most bytes in flight
        #[arg(long, default_value_t = 3 << 20)]
        window: u64,
        /// Bytes of memory that the payload comes from, one after the other and again
        #[arg(long, default_value_t = MEMORY)]
        memory: usize,
    },
    /// Answer each datagram
    Pong {
        /// Address to receive at
        address: SocketAddr,
        /// How to wait for them
        #[arg(long, value_enum, default_value_t = pingpong::Wait::Poll)]
        wait: pingpong::Wait,
    },
    /// Send and await datagrams of this many bytes in turn; print a one-way time in
    /// microseconds
    Ping {
        /// Where to
        address: SocketAddr,
        /// Bytes of a datagram
        #[arg(long, default_value_t = 36)]
        size: usize,
        /// How many
        #[arg(long, default_value_t = 50_000)]
        count: usize,
        /// How to wait for the answers
        #[arg(long, value_enum, default_value_t = pingpong::Wait::Poll)]
        wait: pingpong::Wait,
        /// What to print of the times
        #[arg(long, value_enum, default_value_t = pingpong::Figure::Median)]
        figure: pingpong::Figure,
    },
    /// Connect by TCP, one connection after the other; print the median time of one in microseconds
    Connect {
        /// An address of this host
        address: SocketAddr,
        /// How many
        #[arg(long, default_value_t = 2_000)]
        count: usize,
    },
    /// WRITE from one device to another of this program, by one thread; print the nanoseconds of
    /// processor time that a packet takes at both ends together
    Engine {
        /// Bytes of a message
        #[arg(long, default_value_t = 4096)]
        size: usize,
        /// How long
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// Send messages to sockets of this program; print the nanoseconds of processor time that
    /// handing one over takes, and how many arrive in a second
    Ways {
        /// How they are handed to the kernel
        #[arg(long, value_enum)]
        way: ways::Way,
        /// Bytes of a message; those of more than 4096 are cut by GSO, at most 15 packets
        #[arg(long, default_value_t = 2)]
        size: usize,
        /// Receiving sockets, which take turns
        #[arg(long, default_value_t = 1)]
        paths: usize,
        /// Messages that are ready at the same time
        #[arg(long, default_value_t = 16)]
        batch: usize,
        /// How long
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// Take datagrams that come to a polling thread; print the nanoseconds of a look in vain, the
    /// median one-way time of small ones in microseconds, and runs of 15 packets in a second
    Receives {
        /// How the thread looks
        #[arg(long, value_enum)]
        way: receives::Look,
        /// How long
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// Copy to another's memory again and again; print bytes per second
    Copies {
        /// Who copies
        #[arg(long, value_enum)]
        by: copies::By,
        /// Bytes of memory at either end, a multiple of 65536; the kernel copies all of it at once
        #[arg(long, default_value_t = 64 << 10)]
        memory: usize,
        /// How long
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// Join the network namespace that this is run in to that of another process: packets cross
    /// after a delay, and some are lost, as lines of the input say, until it ends
    Line {
        /// The other process
        peer: u32,
    },
    /// Hand a word of memory from one thread to another and back; print the time of a round in
    /// microseconds
    Word {
        /// How many rounds
        #[arg(long, default_value_t = 2_000)]
        rounds: u64,
        /// Which of the times is printed: the median of parts of the rounds, or the mean
        #[arg(long, value_enum, default_value_t = pingpong::Figure::Mean)]
        figure: pingpong::Figure,
    },
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Receive {
            address,
            payload,
            memory,
        } => receiver::run(address, payload, memory),
        Command::Send {
            address,
            payload,
            seconds,
            window,
            memory,
        } => sender::run(address, payload, seconds, window, memory),
        Command::Pong { address, wait } => pingpong::answer(address, wait),
        Command::Ping {
            address,
            size,
            count,
            wait,
            figure,
        } => pingpong::ask(address, size, count, wait, figure),
        Command::Connect { address, count } => connect::run(address, count),
        Command::Engine { size, seconds } => engine::run(size, seconds),
        Command::Ways {
            way,
            size,
            paths,
            batch,
            seconds,
        } => ways::run(&ways::Task {
            way,
            size,
            paths,
            batch,
            seconds,
        }),
        Command::Receives { way, seconds } => receives::run(way, seconds),
        Command::Copies {
            by,
            memory,
            seconds,
        } => copies::run(by, memory, seconds),
        Command::Line { peer } => line::run(peer),
        Command::Word { rounds, figure } => {
            word::run(rounds, figure);
            Ok(())
        }
    }
}
