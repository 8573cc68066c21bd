//! The command lines of the stock programs that connect through rdma_cm: both ends, the port space
//! in which the server listens, and what the client says when all went well.

use crate::lab::host::TCP;

/// `RDMA_PS_UDP`.
pub(crate) const UDP: u64 = 0x0111;
const IB: u64 = 0x013f;
/// No port space: the server listens at the UDP port itself, as datagram rsockets do.
pub(in crate::groups) const NONE: u64 = 0;

/// A stock program: its server's and its client's command line, where `ADDR` and `PORT` stand for
/// the server's.
pub(crate) struct Stock {
    pub(crate) name: &'static str,
    pub(crate) server: &'static str,
    pub(crate) client: &'static str,
    /// The port space in which the server listens.
    pub(crate) space: u64,
    /// Whether the server stays until it is killed.
    pub(crate) stays: bool,
    /// What the client must say.
    pub(crate) says: &'static str,
}

pub(crate) const fn stock(
    name: &'static str,
    server: &'static str,
    client: &'static str,
    says: &'static str,
) -> Stock {
    Stock {
        name,
        server,
        client,
        space: TCP,
        stays: false,
        says,
    }
}

/// rping's clients say each round trip at once, so that what they have done is known even of one
/// that must be killed.
pub(in crate::groups) const STOCK: &[Stock] = &[
    stock(
        "rping",
        "rping -s -a ADDR -p PORT -v -V -C 20",
        "stdbuf -oL rping -c -a ADDR -p PORT -v -V -C 20",
        "rdma-ping-19",
    ),
    stock(
        "rping, listening everywhere, 60,000 bytes",
        "rping -s -p PORT -V -C 20 -S 60000",
        "stdbuf -oL rping -c -a ADDR -p PORT -v -V -C 20 -S 60000",
        "rdma-ping-19",
    ),
    Stock {
        stays: true,
        ..stock(
            "rping, a server for many",
            "rping -s -P -a ADDR -p PORT -V",
            "stdbuf -oL rping -c -a ADDR -p PORT -v -V -C 20",
            "rdma-ping-19",
        )
    },
    stock(
        "ucmatose, 200 connections",
        "ucmatose -b ADDR -p PORT -c 200",
        "ucmatose -s ADDR -p PORT -c 200",
        "return status 0",
    ),
    stock(
        "ucmatose, migrating ids between channels",
        "ucmatose -b ADDR -p PORT -c 20 -m",
        "ucmatose -s ADDR -p PORT -c 20 -m",
        "return status 0",
    ),
    stock(
        "rdma_client",
        "rdma_server -s ADDR -p PORT",
        "rdma_client -s ADDR -p PORT",
        "rdma_client: end 0",
    ),
    stock(
        "rdma_xclient, RC",
        "rdma_xserver -c r -p PORT",
        "rdma_xclient -c r -s ADDR -p PORT",
        "rdma_xclient: end 0",
    ),
    Stock {
        space: IB,
        ..stock(
            "rdma_xclient, XRC",
            "rdma_xserver -c x -p PORT",
            "rdma_xclient -c x -s ADDR -p PORT",
            "rdma_xclient: end 0",
        )
    },
    stock(
        "rstream",
        "rstream -b ADDR -p PORT -S 4096 -I 20 -C 50",
        "rstream -s ADDR -p PORT -S 4096 -I 20 -C 50",
        "custom",
    ),
    stock(
        "riostream",
        "riostream -b ADDR -p PORT -S 4096 -I 10 -C 10",
        "riostream -s ADDR -p PORT -S 4096 -I 10 -C 10",
        "custom",
    ),
    Stock {
        space: UDP,
        ..stock(
            "udaddy",
            "udaddy -b ADDR -c 4",
            "udaddy -s ADDR -c 4",
            "return status 0",
        )
    },
    Stock {
        space: NONE,
        stays: true,
        ..stock(
            "udpong",
            "udpong -b ADDR -p PORT",
            "udpong -s ADDR -p PORT -C 100 -S 64",
            "custom",
        )
    },
    Stock {
        stays: true,
        ..stock(
            "cmtime, 1,000 connections",
            "cmtime -b ADDR -p PORT -c 1000",
            "cmtime -s ADDR -p PORT -c 1000",
            "disconnect",
        )
    },
];

/// cmtime as it is from rdma-core 59 on: which end is which is said by `-L`, and agreed upon over
/// TCP.
pub(in crate::groups) const CMTIME_59: Stock = Stock {
    space: NONE,
    ..stock(
        "cmtime, 1,000 connections",
        "cmtime -L -b ADDR -C ADDR -p PORT -c 1000",
        "cmtime -b ADDR -C ADDR -p PORT -c 1000",
        "disconnect",
    )
};

/// Ten times the backlog that a listener has by default. One place is enough: it takes about a
/// second of the processor for each daemon.
pub(super) const MANY: Stock = Stock {
    stays: true,
    ..stock(
        "cmtime, 10,000 connections",
        "cmtime -b ADDR -p PORT -c 10000",
        "cmtime -s ADDR -p PORT -c 10000",
        "disconnect",
    )
};

pub(super) const PERFTEST: &[&str] = &[
    "ib_send_bw -n 500",
    "ib_send_lat -n 200",
    "ib_write_bw -n 500",
    "ib_write_lat -n 200",
    "ib_read_bw -n 500",
    "ib_read_lat -n 200",
    "ib_atomic_bw -n 500",
    "ib_atomic_lat -n 200",
    "ib_write_bw -n 200 -q 8",
    "ib_send_bw -n 200 -b",
];

/// One of perftest's lines, connected by rdma_cm.
pub(crate) const fn perftest(line: &'static str) -> Stock {
    stock(line, line, line, "#bytes")
}
