//! Why a file is not replayed.

/// What is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It has next to nothing in it.
    #[error(
        "{0} bytes are no capture: was it written to its end? `ferroce capture -w FILE` makes one"
    )]
    Short(usize),
    /// It is something else.
    #[error(
        "neither pcapng nor pcap: `ferroce capture -w FILE` makes a file that can be replayed, as do tcpdump and Wireshark"
    )]
    NoCapture,
    /// Nothing in it could be read.
    #[error("nothing in the file can be read: {0}")]
    Broken(String),
    /// There is no queue pair in it.
    #[error(
        "no packet of a queue pair in it ({0} packets of other kinds): was there RDMA traffic while it was captured, and is its port 4791?"
    )]
    Nothing(u64),
    /// There is none of that number.
    #[error("no queue pair {qpn:#x} in it; there are {}", list(.there))]
    NoQueuePair {
        /// The number asked for.
        qpn: u32,
        /// The numbers that there are.
        there: Vec<u32>,
    },
}

fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(|n| format!("{n:#x}")).collect();
    words.join(", ")
}
