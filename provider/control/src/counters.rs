//! Counters of one client, in a page of memory that the client adds to and the daemon sums up.
//! Beside these there is only what is counted at each InfiniBand port (`ports`). Neither side
//! trusts the other's numbers for anything but showing them and telling a subnet manager.

use std::fmt;
use std::fs::File;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::ControlError;

/// Bytes in a page of counters; more than any list of counters needs.
const PAGE: usize = 4096;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $variant:ident => $name:literal,)*) => {
        /// What is counted. The position in the list is the position in the shared page, so new
        /// ones go at the end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter { $($(#[doc = $doc])* $variant,)* }

        impl Counter {
            /// Every counter, in the page's order.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)*];

            /// The name under which sysfs's `hw_counters` and `ferroce status` show it.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)* }
            }

            /// What is counted, in a sentence or two without the last full stop.
            pub fn help(self) -> &'static str {
                let lines = match self { $(Counter::$variant => concat!($($doc,)*),)* };
                lines.trim().trim_end_matches('.')
            }
        }
    };
}

counters! {
    /// Packets received and accepted by the transport. In a page without those for groups; a sum
    /// has them all.
    RxPackets => "rcvd_pkts",
    /// Bytes of those packets, from the BTH to the ICRC.
    RxBytes => "rcvd_bytes",
    /// Packets sent. In a page without those to groups; a sum has them all.
    TxPackets => "sent_pkts",
    /// Bytes of those packets, from the BTH to the ICRC.
    TxBytes => "sent_bytes",
    /// Packets dropped for a wrong ICRC.
    RxIcrcErrors => "rx_icrc_encapsulated",
    /// Packets dropped because they could not be parsed.
    RxParseErrors => "rx_parse_errors",
    /// Packets dropped because no queue pair has their number.
    RxUnknownQp => "rx_unknown_qp",
    /// Packets dropped for a P_Key that is not the queue pair's.
    RxWrongPkey => "rx_wrong_pkey",
    /// Packets dropped because they came from an address that is not the queue pair's peer.
    RxBadPeer => "rx_bad_peer",
    /// Requests received again that had been carried out before.
    DuplicateRequest => "duplicate_request",
    /// Requests received out of order.
    OutOfSequence => "out_of_sequence",
    /// RNR NAKs received.
    RnrNakRetry => "rnr_nak_retry_err",
    /// PSN sequence error NAKs received.
    PacketSeqErr => "packet_seq_err",
    /// Local ACK Timeouts that expired.
    LocalAckTimeout => "local_ack_timeout_err",
    /// Times that a missing response showed that it or its request was lost.
    ImpliedNakSeqErr => "implied_nak_seq_err",
    /// RNR NAKs sent because no receive was posted.
    OutOfBuffer => "out_of_buffer",
    /// NAKs sent for a PSN sequence error.
    SeqErrNakSent => "send_seq_nak",
    /// RDMA WRITE requests received.
    RxWriteRequests => "rx_write_requests",
    /// RDMA READ requests received.
    RxReadRequests => "rx_read_requests",
    /// ATOMIC requests received.
    RxAtomicRequests => "rx_atomic_requests",
    /// SEND requests received.
    RxSendRequests => "rx_send_requests",
    /// Send requests completed with an error other than a flush.
    ReqCqeError => "req_cqe_error",
    /// Receive requests completed with an error other than a flush.
    RespCqeError => "resp_cqe_error",
    /// Send requests flushed.
    ReqCqeFlushError => "req_cqe_flush_error",
    /// Receive requests flushed.
    RespCqeFlushError => "resp_cqe_flush_error",
    /// Requests of ours that the peer refused with a remote access NAK.
    ReqRemoteAccessErrors => "req_remote_access_errors",
    /// Requests of ours that the peer refused as invalid.
    ReqRemoteInvalidRequest => "req_remote_invalid_request",
    /// Requests of the peer that failed the checks of memory access.
    RespRemoteAccessErrors => "resp_remote_access_errors",
    /// Requests of the peer that were too long for the posted receive.
    RespLocalLengthError => "resp_local_length_error",
    /// Transport retries that ran out.
    RetryExceeded => "retry_exceeded_err",
    /// RNR retries that ran out.
    RnrRetryExceeded => "retry_rnr_exceeded_err",
    /// Packets sent more than once.
    RetransmittedPackets => "roce_retransmits",
    /// Packets that the kernel would not send.
    TxErrors => "send_err",
    /// Packets of another process's queue pair that arrived here.
    RxMisdirected => "rx_misdirected",
    /// Acknowledgements that waited for a request to go out beside.
    AckDeferred => "ack_deferred",
    /// Packets dropped by the kernel because the socket's buffer was full.
    RxSocketOverflow => "rx_socket_overflow",
    /// Datagrams dropped for a Q_Key that is not the queue pair's.
    QkeyViolation => "qkey_viol",
    /// Messages of unreliable services dropped because no receive was posted.
    RxNoReceive => "rx_no_receive",
    /// Messages of unreliable connections dropped after a gap.
    UcLoss => "uc_loss",
    /// Packets received for multicast groups.
    RxMulticast => "rcvd_mcast_pkts",
    /// Packets sent to multicast groups.
    TxMulticast => "sent_mcast_pkts",
    /// Of the packets sent, those handed to a process of the same device without a socket.
    TxLoopback => "sent_loopback_pkts",
    /// CNPs received that had a path's congestion control act.
    CnpHandled => "rp_cnp_handled",
    /// Packets received that the network had marked (CE), for queue pairs.
    EcnMarked => "np_ecn_marked_roce_packets",
    /// CNPs sent, as packets came with a mark.
    CnpSent => "np_cnp_sent",
}

const _: () = assert!(Counter::ALL.len() * size_of::<u64>() <= PAGE);

/// A page of counters, shared between the processes that hold its descriptor. Clones are the same
/// page.
#[derive(Clone)]
pub struct CounterPage {
    map: Arc<MmapRaw>,
}

impl CounterPage {
    /// A new page of zeros and the descriptor to hand to a client.
    ///
    /// The descriptor is sealed against changes of size: a client that shrank it would otherwise
    /// kill the daemon with SIGBUS.
    pub fn create() -> Result<(Self, OwnedFd), ControlError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("ferroce-counters", flags)
            .map_err(ControlError::io("creating the page of counters"))?;
        rustix::fs::ftruncate(&fd, PAGE as u64)
            .map_err(ControlError::io("sizing the page of counters"))?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(ControlError::io("sealing the page of counters"))?;
        let page = Self::map(fd.as_fd())?;
        Ok((page, fd))
    }

    /// A page that is shared with nobody, for tests and for work without a daemon.
    pub fn private() -> Result<Self, ControlError> {
        Self::create().map(|(page, _)| page)
    }

    /// Maps the page behind a descriptor that came from [`create`](Self::create) in some process.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, ControlError> {
        let file = File::from(fd);
        let len = file
            .metadata()
            .map_err(|source| ControlError::Io {
                what: "measuring the page of counters",
                source,
            })?
            .len();
        if len != PAGE as u64 {
            return Err(ControlError::Malformed(format!(
                "a page of counters of {len} bytes"
            )));
        }
        Self::map(file.as_fd())
    }

    fn map(fd: BorrowedFd<'_>) -> Result<Self, ControlError> {
        let map = MmapOptions::new()
            .len(PAGE)
            .map_raw(&fd)
            .map_err(|source| ControlError::Io {
                what: "mapping the page of counters",
                source,
            })?;
        Ok(Self { map: Arc::new(map) })
    }

    /// Adds `n`, wrapping at 2^64. Relaxed: counters order nothing.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.cell(counter).fetch_add(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn read(&self, counter: Counter) -> u64 {
        self.cell(counter).load(Ordering::Relaxed)
    }

    #[inline]
    fn cell(&self, counter: Counter) -> &AtomicU64 {
        self.word(counter as usize)
    }

    /// How many words there are.
    pub(crate) const WORDS: usize = PAGE / size_of::<u64>();

    /// One word of the page; its index must be one ([`WORDS`](Self::WORDS)).
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < Self::WORDS);
        let base = self.map.as_mut_ptr().cast::<u64>();
        // SAFETY: the mapping is PAGE bytes long, page-aligned, readable and writable, and lives as
        // long as `self`. The index is inside it (asserted above). The memory is shared
        // with other processes, and both sides access it through atomics only.
        unsafe { AtomicU64::from_ptr(base.add(index)) }
    }
}

impl fmt::Debug for CounterPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                Counter::ALL
                    .iter()
                    .map(|&c| (c.name(), self.read(c)))
                    .filter(|(_, v)| *v > 0),
            )
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_mappings_see_the_same_numbers() {
        let (ours, fd) = CounterPage::create().unwrap();
        let theirs = CounterPage::from_fd(fd).unwrap();
        for (i, &counter) in Counter::ALL.iter().enumerate() {
            theirs.add(counter, i as u64 + 1);
        }
        for (i, &counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(ours.read(counter), i as u64 + 1);
        }
    }

    #[test]
    fn the_page_cannot_be_shrunk_and_other_files_are_refused() {
        let (_page, fd) = CounterPage::create().unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        let file = tempfile::tempfile().unwrap();
        assert!(CounterPage::from_fd(file.into()).is_err());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());
    }
}
