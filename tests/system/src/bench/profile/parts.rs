//! What a sample is counted for.

use super::samples::{Frame, Sample};
use super::symbols::{Place, Symbols};

/// A part of ferroce, of the kernel or of the program, in the order of a request's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Program,
    Exs,
    Plugin,
    Verbs,
    DataPath,
    Transport,
    Headers,
    Icrc,
    Keys,
    Copies,
    Port,
    Progress,
    Engine,
    Clock,
    Send,
    SendCopies,
    Loopback,
    Receive,
    ReceiveCopies,
    Uring,
    Yield,
    Waiting,
    Kernel,
    Unknown,
}

impl Part {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Part::Program => "the program, libibverbs, libc",
            Part::Exs => "libexs",
            Part::Plugin => "provider: verbs from C",
            Part::Verbs => "posting, completions, locks",
            Part::DataPath => "runs: putting together, taking apart",
            Part::Transport => "transport",
            Part::Headers => "headers",
            Part::Icrc => "ICRC",
            Part::Keys => "memory keys",
            Part::Copies => "copies",
            Part::Port => "ports, paths, pace",
            Part::Progress => "whose turn it is, timers",
            Part::Engine => "engine, the rest",
            Part::Clock => "the clock",
            Part::Send => "kernel: sendmsg",
            Part::SendCopies => "kernel: sendmsg, copies",
            Part::Loopback => "kernel: to the other's socket",
            Part::Receive => "kernel: recvmsg",
            Part::ReceiveCopies => "kernel: recvmsg, copies",
            Part::Uring => "kernel: io_uring",
            Part::Yield => "kernel: sched_yield",
            Part::Waiting => "kernel: waiting and waking",
            Part::Kernel => "kernel, the rest",
            Part::Unknown => "unknown",
        }
    }
}

/// Parts of ferroce by the source files that they are in; the first that fits.
const SOURCES: [(&str, Part); 20] = [
    ("crc32fast", Part::Icrc),
    ("wire/src/crc.rs", Part::Icrc),
    ("wire/src/icrc.rs", Part::Icrc),
    ("wire/src/identification.rs", Part::Icrc),
    ("provider/wire/", Part::Headers),
    ("engine/src/memory/copies", Part::Copies),
    ("engine/src/memory/guard", Part::Copies),
    ("engine/src/memory/shared", Part::Headers),
    ("engine/src/memory/", Part::Keys),
    ("provider/transport/", Part::Transport),
    ("engine/src/port", Part::Port),
    ("engine/src/datapath", Part::DataPath),
    ("engine/src/progress", Part::Progress),
    ("engine/src/verbs", Part::Verbs),
    ("engine/src/locks", Part::Verbs),
    ("provider/engine/", Part::Engine),
    ("provider/control/", Part::Engine),
    ("rdma-core-plugin/", Part::Plugin),
    ("/cabi/", Part::Plugin),
    ("/exs/", Part::Exs),
];

/// What the kernel was asked for, by functions that are among the frames; the first that fits.
const CALLS: [(&str, Part); 9] = [
    ("process_backlog", Part::Loopback),
    ("sys_sendmsg", Part::Send),
    ("sys_recvmsg", Part::Receive),
    ("io_uring", Part::Uring),
    ("sys_sched_yield", Part::Yield),
    ("sys_futex", Part::Waiting),
    ("_poll", Part::Waiting),
    ("sys_write", Part::Waiting),
    ("sys_read", Part::Waiting),
];

/// Functions of the kernel that copy.
const COPYING: [&str; 4] = ["rep_movs", "copy_", "_copy", "memcpy"];

/// The part that a sample is of.
pub(super) fn of(sample: &Sample, symbols: &Symbols) -> Part {
    let Some(first) = sample.frames.first() else {
        return Part::Unknown;
    };
    if first.is_kernel() {
        return in_kernel(&sample.frames);
    }
    if first.object.contains("[vdso]") {
        return Part::Clock;
    }
    let places = symbols.places(&first.object, first.address);
    match places.is_empty() {
        true => in_library(first),
        false => in_sources(places),
    }
}

fn in_kernel(frames: &[Frame]) -> Part {
    let has = |name: &str| frames.iter().any(|frame| frame.symbol.contains(name));
    let call = CALLS.iter().find(|(name, _)| has(name));
    let call = call.map_or(Part::Kernel, |(_, part)| *part);
    let copies = COPYING.iter().any(|name| frames[0].symbol.contains(name));
    match (call, copies) {
        (Part::Send, true) => Part::SendCopies,
        (Part::Receive, true) => Part::ReceiveCopies,
        _ => call,
    }
}

/// Of what we have not built.
fn in_library(frame: &Frame) -> Part {
    let in_libc = frame.object.contains("libc.so") || frame.object.contains("libc-");
    let symbol = frame.symbol.as_str();
    let copies = ["memcpy", "memmove", "memset"];
    if in_libc && copies.iter().any(|name| symbol.contains(name)) {
        Part::Copies
    } else if in_libc && symbol.contains("clock_gettime") {
        Part::Clock
    } else {
        Part::Program
    }
}

/// The innermost of the functions that is ours: the standard library works for who calls it.
fn in_sources(places: &[Place]) -> Part {
    let of_place = |(function, file): &Place| {
        if function.starts_with("ferroce_guard") {
            return Some(Part::Copies);
        }
        let source = SOURCES.iter().find(|(path, _)| file.contains(path));
        source.map(|(_, part)| *part)
    };
    places.iter().find_map(of_place).unwrap_or(Part::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(symbols: &[&str], object: &str) -> Vec<Frame> {
        let frame = |symbol: &&str| Frame {
            address: 1,
            symbol: (*symbol).to_owned(),
            object: object.to_owned(),
        };
        symbols.iter().map(frame).collect()
    }

    #[test]
    fn the_kernel_by_what_it_was_asked_for() {
        let part = |symbols: &[&str]| in_kernel(&frames(symbols, "[kernel.kallsyms]"));
        assert_eq!(part(&["udp_sendmsg", "__x64_sys_sendmsg"]), Part::Send);
        let copies = ["rep_movs_alternative", "_copy_from_iter", "__sys_sendmsg"];
        assert_eq!(part(&copies), Part::SendCopies);
        let inside = ["udp_gro_receive", "process_backlog", "__sys_sendmsg"];
        assert_eq!(part(&inside), Part::Loopback);
        assert_eq!(part(&["asm_exc_page_fault"]), Part::Kernel);
    }

    #[test]
    fn ours_by_the_innermost_file() {
        let place = |file: &str| ("f".to_owned(), file.to_owned());
        let places = [
            place("/rustc/1/library/core/src/option.rs:1"),
            place("/x/provider/wire/src/packet.rs:7"),
            place("/x/provider/engine/src/datapath/rx/run.rs:9"),
        ];
        assert_eq!(in_sources(&places), Part::Headers);
        assert_eq!(in_sources(&places[..1]), Part::Unknown);
        let assembly = ("ferroce_guard_copy".to_owned(), "??:0".to_owned());
        assert_eq!(in_sources(&[assembly]), Part::Copies);
    }
}
