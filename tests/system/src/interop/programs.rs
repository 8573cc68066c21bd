//! The programs that are run between rdma_rxe and ferroce.

use Program::{
    C, ClientKilled, Connected, Exs, FioSends, Iperf3Stops, Multicast, NobodyAnswers,
    NobodyListens, Perftest, Pingpong,
};

use crate::groups::Mode;
use crate::groups::cm::{Stock, UDP, stock};

/// A program to run.
#[derive(Clone, Copy)]
pub(super) enum Program {
    /// perftest, whose ends exchange addresses over TCP.
    Perftest(&'static str),
    /// perftest, connected by rdma_cm.
    Connected(&'static str),
    /// A pingpong of rdma-core.
    Pingpong(&'static str),
    /// A program of librdmacm.
    Stock(&'static Stock),
    /// This many datagrams to a group, by mckey, whose receiver awaits 10.
    Multicast(u32),
    /// A client of rdma_cm where nobody listens.
    NobodyListens,
    /// A client of rdma_cm where nobody is, which waits for more than a minute and does nothing
    /// meanwhile: others are run beside it.
    NobodyAnswers,
    /// A client of rdma_cm that is killed while it is connected: its server is told.
    ClientKilled,
    /// fio with `verb=send` and the depth that it has by itself, whose client is soon ahead of its
    /// server's receive requests and has asked for no retries: the client's device says so with
    /// status 13, whichever it is.
    FioSends,
    /// iperf3 over librspreload of rdma-core before 63, whose `select` names the wrong descriptor:
    /// its server reads nothing, whichever device it has, and the client gets no further than the
    /// buffers.
    Iperf3Stops,
    /// Tests of a C program of `tests/verbs`: those named, or all but those.
    C(&'static str, Choice),
    /// A conformance program of the Extended Sockets library in a mode.
    Exs(&'static str, Mode, Ends),
}

/// Where the two processes of a test are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// One on each side: the other process serves.
    Mixed,
    /// Both on the side that serves.
    Alone,
}

/// Which tests of a C program.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    /// These.
    Only(&'static [&'static str]),
    /// All that it has.
    All,
}

impl Program {
    /// As it is called in results; a C program's tests are told after it.
    pub(super) fn name(&self) -> String {
        match self {
            Perftest(line) | Pingpong(line) => (*line).to_owned(),
            Connected(line) => format!("{line} -R"),
            Program::Stock(stock) => stock.name.to_owned(),
            Multicast(10) => "mckey".to_owned(),
            Multicast(count) => format!("mckey, 10 of {count} datagrams"),
            NobodyListens => "rping to nobody".to_owned(),
            NobodyAnswers => "rping to an address of nobody".to_owned(),
            ClientKilled => "rping, the client killed".to_owned(),
            FioSends => "fio, verb=send".to_owned(),
            Iperf3Stops => "iperf3 over rsockets".to_owned(),
            C(name, _) => format!("{name}.c"),
            Exs(name, mode, Ends::Mixed) => format!("{name}, {}", mode.name()),
            Exs(name, mode, Ends::Alone) => format!("{name}, {}, one device", mode.name()),
        }
    }

    /// What needs IPv4: perftest's `-R`, fio and iperf3 as we run it take an address of IPv4 only,
    /// rdma_cm joins groups of IPv4 only over RoCE, and our own programs of rdma_cm connect by
    /// IPv4.
    pub(super) fn is_v4_only(&self) -> bool {
        matches!(
            self,
            Connected(_) | FioSends | Iperf3Stops | Multicast(_) | C("cm_killed" | "cm_refused", _)
        )
    }
}

/// Both forms of all operations of the Extended Sockets library.
pub(super) const EXS_SHORT: Program = Exs("exs_mixed", Mode::NonBlocking, Ends::Mixed);

pub(super) const RPING: Stock = stock(
    "rping",
    "rping -s -a ADDR -p PORT -V -C 5",
    "rping -c -a ADDR -p PORT -v -V -C 5",
    "rdma-ping-4",
);
pub(super) const UCMATOSE: Stock = stock(
    "ucmatose",
    "ucmatose -b ADDR -p PORT -c 5",
    "ucmatose -s ADDR -p PORT -c 5",
    "return status 0",
);
pub(super) const UDADDY: Stock = Stock {
    space: UDP,
    ..stock(
        "udaddy",
        "udaddy -b ADDR -c 3",
        "udaddy -s ADDR -c 3",
        "return status 0",
    )
};
pub(super) const RPING_LONG: Stock = stock(
    "rping of 60,000 bytes",
    "rping -s -a ADDR -p PORT -V -C 5 -S 60000",
    "rping -c -a ADDR -p PORT -V -C 5 -S 60000",
    "",
);
pub(super) const UCMATOSE_MANY: Stock = stock(
    "ucmatose, 50 connections",
    "ucmatose -b ADDR -p PORT -c 50",
    "ucmatose -s ADDR -p PORT -c 50",
    "return status 0",
);
pub(super) const RDMA_CLIENT: Stock = stock(
    "rdma_client",
    "rdma_server -s ADDR -p PORT",
    "rdma_client -s ADDR -p PORT",
    "rdma_client: end 0",
);
pub(super) const RSTREAM: Stock = stock(
    "rstream",
    "rstream -b ADDR -p PORT -S 4096 -I 10 -C 10",
    "rstream -s ADDR -p PORT -S 4096 -I 10 -C 10",
    "custom",
);
pub(super) const RIOSTREAM: Stock = stock(
    "riostream",
    "riostream -b ADDR -p PORT -S 4096 -I 5 -C 5",
    "riostream -s ADDR -p PORT -S 4096 -I 5 -C 5",
    "custom",
);
pub(super) const CMTIME: Stock = Stock {
    stays: true,
    ..stock(
        "cmtime",
        "cmtime -b ADDR -p PORT -c 50",
        "cmtime -s ADDR -p PORT -c 50",
        "disconnect",
    )
};
/// Resolves and ends: what is lost after that nobody sends again.
pub(super) const UDADDY_RESOLVES: Stock = Stock {
    space: UDP,
    stays: true,
    ..stock(
        "udaddy without messages",
        "udaddy -b ADDR -c 3 -C 0",
        "udaddy -s ADDR -c 3 -C 0",
        "return status 0",
    )
};

/// Those with the other end on the other host, where it is killed before it disconnects.
pub(super) const KILLED: Choice = Choice::Only(&[
    "server_killed_with_a_request",
    "client_killed_with_a_request",
    "server_killed_with_an_answer",
    "client_killed_with_an_answer",
    "server_killed_when_connected",
    "client_killed_when_connected",
]);
