//! Compliance statements whose numbers are known, and what they are about, in this project's words.
//!
//! The specification's own list (volume 1, chapter 20) is not here: a number is known from
//! published descriptions of tests, from annexes that are published, or from code and mail of
//! others that names it. What nobody of these names is missing, and no number is a guess.

use crate::statement::canonical;
use std::sync::OnceLock;

/// Who has named a statement's number, as [`Known::source`] says in short.
pub const SOURCES: &[(&str, &str)] = &[
    (
        "CTS",
        "the descriptions of the IBTA's compliance test suite, release 1.0.38",
    ),
    (
        "CATC",
        "the manual of CATC's InfiniBand exerciser (2002), whose tests name assertions",
    ),
    (
        "mail",
        "the openib-general and linux-rdma mailing lists, which quote the specification",
    ),
    (
        "Linux",
        "comments of the Linux kernel (core, rdma_rxe, rdmavt, hfi1, qib, rds, ib_srp, ib_srpt)",
    ),
    (
        "Mellanox",
        "a description of the registers of Mellanox' InfiniHost III, in iPXE",
    ),
    (
        "OPA",
        "comments of the host software of Omni-Path, which came out of one for InfiniBand",
    ),
    ("pib", "comments of pib, a simulated InfiniBand adapter"),
    (
        "ns-3",
        "comments of RDMA models for the network simulator ns-3",
    ),
    (
        "OpenSM",
        "comments and release notes of OpenSM and of infiniband-diags",
    ),
    ("WinOF", "comments of the OpenFabrics stack for Windows"),
    ("Solaris", "comments of Solaris' InfiniBand stack"),
    ("annex", "the published annex itself"),
    (
        "here",
        "this project's sources, from before this table was made: who named it then is not recorded",
    ),
];

/// A statement.
pub struct Known {
    /// Its number, as code writes it: `C9-60`, `o14-13.1`, `CA17-24`.
    pub number: &'static str,
    /// What it concerns: services, agents, verbs, links.
    pub of: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Who names it.
    pub source: &'static str,
    /// Where else in the project it is tested, if it is.
    pub elsewhere: &'static str,
}

impl Known {
    /// `C` of what every implementation must do, `o` of what must be if an option is there; with an
    /// `A` of an annex.
    pub fn kind(&self) -> &'static str {
        match self.number.as_bytes() {
            [b'C', b'A', ..] => "CA",
            [b'o', b'A', ..] => "oA",
            [b'o', ..] => "o",
            _ => "C",
        }
    }
}

macro_rules! known {
    ($($number:literal $of:literal $source:literal $about:literal $(else $elsewhere:literal)?;)*) => {
        &[$(Known {
            number: $number,
            of: $of,
            about: $about,
            source: $source,
            elsewhere: concat!($($elsewhere)?),
        }),*]
    };
}

/// All of them, in the order of the specification.
pub const ALL: &[Known] = known! {
    "C5-8" "RC UC" "mail" "the packets of a message are as long as the path MTU, all but the last";
    "C7-1" "link" "CTS" "what a port takes and sends in each of its states";
    "C7-7" "link" "CTS" "packets that a channel adapter's link layer drops: version, length, ends";
    "C7-9" "link" "CATC" "the same of switches and routers";
    "C7-25" "link" "OPA" "subnet management packets have service level 0";
    "C7-66" "link" "here" "a port has the LIDs that base LID and LMC say";
    "C8-7" "link" "Linux" "the GRH's next header of what is sent; not of RoCEv2";
    "C9-6" "RC UC UD" "mail" "reserved bits of the BTH: sent as zero, not looked at when received";
    "C9-27" "RC" "CTS" "responses come in the order of their requests";
    "C9-41" "SMA" "pib" "no P_Key is looked at in a packet for queue pair 0";
    "C9-42" "SMA PMA CM" "pib" "a packet for queue pair 1 needs a P_Key of the port's table";
    "C9-43" "RC UC UD" "pib" "a packet for any other queue pair needs the P_Key of that queue pair";
    "C9-43.1.1" "RC UC UD" "annex" "the GRH of received packets; not of RoCEv2";
    "C9-43.1.2" "RC UC UD" "annex" "the GRH of received packets; not of RoCEv2";
    "C9-44" "RC UC UD" "annex" "the GRH's next header; not of RoCEv2";
    "C9-45" "RC UC UD" "annex" "the GRH's version; CA17-27 takes its place for RoCEv2";
    "C9-60" "RC" "CTS" "when a request completes, and in which order requests do";
    "C9-88" "RC" "Linux" "a WRITE or READ of no bytes does not look at its R_Key";
    "C9-92" "RC" "Linux" "the length of a packet's payload, by its opcode and the path MTU";
    "C9-94" "RC" "Linux" "the length of a message in its RETH, 2^31 at most";
    "C9-105" "RC" "Linux" "a duplicate SEND or WRITE is acknowledged, and not carried out";
    "C9-110" "RC" "ns-3" "duplicates are answered in the order of their PSNs; an earlier one interrupts";
    "C9-130" "RC" "CTS" "a requester waits as long as an RNR NAK says";
    "C9-132" "RC" "Mellanox" "the RNR retry count: 0 to 6 retries, and 7 for ever";
    "C9-139" "RC" "ns-3" "a send queue has a timer that notices answers that do not come";
    "C9-140" "RC" "Linux" "what a Local ACK Timeout is as a time, its range, and that zero is none" else "`tests/verbs/transitions.c`";
    "C9-141" "RC" "Linux" "what a Local ACK Timeout is as a time" else "`tools/sim/tests/timeouts.rs`";
    "C9-142" "RC" "CTS" "a request that is not acknowledged is sent again after T_tr, and before 4·T_tr";
    "C9-143" "RC" "CTS" "retransmissions are counted, and bounded by the retry count";
    "C9-148" "RC" "mail" "the MSN: where it begins, what it counts, and which answers carry it";
    "C9-205" "UD" "mail" "a datagram longer than its receive request or than the MTU is dropped" else "`tools/sim/tests/ud.rs`";
    "C9-218" "RC" "mail" "a completion queue without room ends the queue pair that completes a request" else "`tests/verbs/queues.c`";
    "C9-220" "RC" "mail" "an error of class A: the responder's own fault, which ends the connection and flushes both queues";
    "C9-222.1.1" "RC" "mail" "an error of class C: the NAK that says what it was, an event where no receive request was at hand, the end of the connection";
    "o9-30" "RC" "mail" "who acknowledges what: of target adapters, of reliable datagrams, and of XRC" else "A14_XRC_01, 03, 04 and 08: each is answered";
    "o10-2.2.3" "UD" "Linux" "a queue pair is not destroyed while it is in a multicast group" else "`tests/verbs/groups.c`";
    "C10-2" "verbs" "mail" "the first entry of a GID table cannot be written; not of RoCEv2";
    "C10-10" "UD" "pib" "an address handle is of the queue pair's protection domain";
    "C10-15" "UD" "WinOF" "a Q_Key with its highest bit set stands for the queue pair's own";
    "C10-20" "RC UC UD" "mail" "a queue pair begins in RESET" else "`tests/verbs/transitions.c`";
    "C10-56" "RC UC" "mail" "a region is there for queue pairs of its own protection domain" else "`provider/engine/src/memory/keys_tests.rs`";
    "C10-57" "RC UC" "mail" "a region is reached with the rights that it was registered with";
    "C10-68" "verbs" "mail" "when a window is bound anew, what it was bound to before is out of reach" else "`tests/verbs/windows.c`";
    "o10-36.2.2" "verbs" "Linux" "no window of type 1 counts from zero" else "not kept, on purpose: [rdma-rxe.md](rdma-rxe.md)";
    "o10-37.2.13" "verbs" "mail" "a region that was registered by its verb is not invalidated by a request" else "`tests/verbs/windows.c`";
    "o10-37.2.17" "verbs" "mail" "no region is invalidated while windows are bound to it" else "no region is invalidated at all";
    "o10-37.2.26" "verbs" "Linux" "no window of type 1 is invalidated by a request" else "`tests/verbs/windows.c`";
    "o10-37.2.30" "verbs" "Linux" "a window of type 2 is bound while it is not bound" else "`tests/verbs/windows.c`";
    "o10-37.2.34" "verbs" "Linux" "a window of type 1 is bound by its verb, and not by a posted request" else "`tests/verbs/windows.c`";
    "o10-37.2.40" "verbs" "Linux" "a window of type 2 is not invalidated by a bind of no bytes" else "`tests/verbs/windows.c`";
    "o10-37.2.43" "verbs" "mail" "a window of type 2 is there for the queue pair that has bound it" else "`tests/verbs/windows.c`";
    "C10-72" "verbs" "Linux" "window, region and queue pair of a bind are of one protection domain" else "`tests/verbs/windows.c`";
    "C10-73" "verbs" "Linux" "the region of a bind allows binds" else "`tests/verbs/windows.c`";
    "C10-74" "verbs" "Linux" "a window to write or for atomics needs local write of the region" else "`tests/verbs/windows.c`";
    "C10-75" "verbs" "Linux" "a window lies inside its region" else "`tests/verbs/windows.c`";
    "C10-76.2.1" "verbs" "mail" "a window of type 1 is there for queue pairs of its protection domain" else "`tests/verbs/windows.c`";
    "C10-77" "verbs" "mail" "a window is reached with the rights that it was bound with" else "`tests/verbs/windows.c`";
    "C10-78" "RC" "here" "a fenced request waits for earlier READs and atomics";
    "C10-87" "RC UC" "pib" "a WRITE without immediate data takes no receive request";
    "C10-93.1.1" "UD" "Linux" "a datagram longer than the MTU is not sent";
    "C10-96" "RC UC UD" "Linux" "send requests that are posted in ERROR are completed as flushed";
    "C10-97.2.1" "RC UC UD" "Linux" "no receive request is posted in RESET" else "`tools/sim/tests/modify.rs`";
    "C10-116" "RC UC UD" "OpenSM" "a P_Key whose low 15 bits are zero is none";
    "C11-13" "verbs" "annex" "special queue pairs are got by a verb of their own; of RoCEv2 only queue pair 1";
    "C11-15" "verbs" "Solaris" "special queue pairs have completion queues of their own";
    "C11-17" "verbs" "Linux" "a completion queue is not destroyed while a queue pair has it" else "`tests/verbs/in_use.c`";
    "C11-31" "verbs" "Linux" "who asks twice for an event of a completion queue, for any and for solicited ones: any it is (with C11-32)";
    "C11-32" "verbs" "Linux" "the same (with C11-31); which of the two says what is not known";
    "C11-37" "verbs" "mail" "an overrun breaks a completion queue" else "`tests/verbs/queues.c`";
    "C11-39" "verbs" "mail" "an error that is of a work queue as a whole raises an event" else "`tests/verbs/queues.c`";
    "o11-1" "verbs" "annex" "special queue pairs for raw datagrams; not of RoCEv2";
    "o11-5.2.5" "RC UD" "mail" "the event of the last receive request that a queue pair in ERROR took of a shared queue" else "`tests/verbs/queues.c`";
    "o11-6.1.2" "SMA" "mail" "client reregistration raises its event";
    "C13-3" "SMA PMA CM" "mail" "a MAD is of 256 bytes";
    "C13-13" "SMA PMA" "CTS" "RespTimeValue and its default; in later releases C13-13.1.1";
    "C13-14" "SMA PMA" "CTS" "how soon an answer comes, by RespTimeValue";
    "C13-15" "SMA PMA" "CTS" "how soon an answer comes, by RespTimeValue";
    "C13-16" "SMA PMA" "CTS" "how soon an answer comes, by RespTimeValue";
    "C13-21.1.3" "RMPP" "OPA" "without the flag Active the rest of the header says nothing";
    "C13-21.1.4" "RMPP" "OPA" "with the flag Active the version is 1" else "`provider/fabric/src/rmpp_tests.rs`";
    "C13-24" "SMA PMA" "CTS" "components that are reserved or may only be read, values that are not legal, statuses";
    "o13-5" "SMA" "Linux" "a trap has the transaction of its first time however often it is sent";
    "C14-3" "SMA" "CTS" "which methods go with which attributes";
    "C14-5" "SM" "WinOF" "only a subnet manager begins a directed route";
    "C14-6" "SMA" "Linux" "a directed route has 0 to 63 hops" else "`provider/fabric/tests/subnets.rs`";
    "C14-9" "SMA" "CTS" "a directed route on its way out";
    "C14-10" "SMA" "OPA" "the answer to a directed-route SMP: direction turned, the rest of the route kept";
    "C14-11" "SMA" "OPA" "the LIDs of that answer";
    "C14-13" "SMA" "CTS" "a directed route on its way back";
    "C14-15" "SMA" "CTS" "a port whose M_Key is zero checks none";
    "C14-16" "SMA" "CTS" "which SMPs the M_Key is looked at in, by M_KeyProtectBits";
    "C14-17" "SMA" "CTS" "the lease begins with the first violation";
    "C14-19" "SMA" "CTS" "who knows the M_Key stops the lease";
    "C14-20" "SMA" "CTS" "when the lease has run out the protection lapses, and the key stays";
    "C14-21" "SMA" "CTS" "a lease period of zero is none";
    "C14-22" "SM" "OpenSM" "how a subnet manager uses M_Keys";
    "C14-24.1.1" "SMA" "CTS" "the attributes of subnet management, component by component";
    "C14-24.2.1" "SMA" "OpenSM" "what of PortInfo means anything while a port is down";
    "C14-26" "SMA" "CTS" "the answer to a SubnSet shows what there is after it";
    "C14-27" "SMA" "CTS" "a SubnSet leaves alone what may only be read";
    "C14-28" "SMA" "CTS" "an SMP that passes the check of the M_Key is carried out";
    "C14-29" "SMA" "CTS" "an SMP whose M_Key is wrong is not answered, and counted";
    "C14-30" "SMA" "CTS" "a SubnGet is answered with the attribute as it is";
    "C14-31" "SMA" "CTS" "what is not there, or not legal, is answered with the status that says so";
    "C14-44" "SM" "OpenSM" "how a subnet manager reads ports";
    "C14-67" "SM" "OpenSM" "which M_Key a subnet manager sets";
    "C14-70" "SMA" "CTS" "SMInfo where no subnet manager is";
    "o14-1" "SMA" "Linux" "traps have an M_Key of zero";
    "o14-2" "SMA" "Linux" "how soon a trap may follow the one before";
    "o14-3" "SMA" "Linux" "SubnTrapRepress is not answered";
    "o14-3.2.1" "SMA" "Linux" "only a port in Active sends traps";
    "o14-12.2.1" "SMA" "Linux" "the answer to a SubnSet with ClientReregister has it, too; of release 1.2";
    "o14-13" "SMA" "mail" "client reregistration; in the proposal o14-13.1 and o14-13.2";
    "C17-7" "RC UC UD" "mail" "who sets the P_Key table, and how it is at first; of RoCEv2 the default P_Key alone";
    "CA16-18" "RoCE" "mail" "an address with a service level that is reserved, 8 to 15, is refused";
    "CA17-1" "RoCEv2" "annex" "packets over IPv4 and over IPv6" else "`cm/veth-ipv6`, `cargo xtask test interop`";
    "CA17-2" "RoCEv2" "annex" "the order of a packet's headers" else "every packet between testers and device";
    "CA17-3" "RoCEv2" "annex" "IPv4: no options";
    "CA17-4" "RoCEv2" "annex" "IPv4: the DSCP is of the address's traffic class" else "`provider/engine/tests/datagrams.rs`, `cm/veth-1500/type of service on the wire`";
    "CA17-5" "RoCEv2" "annex" "IPv4: ECN of who has no congestion management" else "`robust/veth-9000/marked packets, aimd`";
    "CA17-6" "RoCEv2" "annex" "IPv4: the total length";
    "CA17-7" "RoCEv2" "annex" "IPv4: packets are not to be fragmented";
    "CA17-8" "RoCEv2" "annex" "IPv4: packets are no fragments";
    "CA17-9" "RoCEv2" "annex" "IPv4: the time to live is the address's hop limit" else "`provider/engine/tests/datagrams.rs`";
    "CA17-10" "RoCEv2" "annex" "IPv4: the protocol is UDP" else "every packet between testers and device";
    "CA17-11" "RoCEv2" "annex" "IPv4: the source is the address's GID" else "every packet between testers and device";
    "CA17-12" "RoCEv2" "annex" "IPv4: the destination is the address's GID" else "every packet between testers and device";
    "CA17-13" "RoCEv2" "annex" "IPv6: the DSCP is of the address's traffic class";
    "CA17-14" "RoCEv2" "annex" "IPv6: ECN of who has no congestion management";
    "CA17-15" "RoCEv2" "annex" "IPv6: the payload's length";
    "CA17-16" "RoCEv2" "annex" "IPv6: the next header is UDP" else "`cm/veth-ipv6`";
    "CA17-17" "RoCEv2" "annex" "IPv6: the hop limit is the address's";
    "CA17-18" "RoCEv2" "annex" "IPv6: the source is the address's GID" else "`cm/veth-ipv6`";
    "CA17-19" "RoCEv2" "annex" "IPv6: the destination is the address's GID" else "`cm/veth-ipv6`";
    "CA17-20" "RoCEv2" "annex" "the UDP destination port" else "every packet between testers and device";
    "CA17-21" "RoCEv2" "annex" "the UDP length";
    "CA17-22" "RoCEv2" "annex" "how the ICRC is made" else "every packet: `s9.2#every-packet`";
    "CA17-23" "RoCEv2" "annex" "what is looked at in a packet is what InfiniBand's transport looks at" else "the tests of sections 9.6 and 9.6.1";
    "CA17-24" "RoCEv2" "annex" "what does not conform, its ICRC for one, is dropped without an answer";
    "CA17-25" "RoCEv2" "annex" "the transport is that of chapter 9" else "the tests of chapter 9";
    "CA17-27" "RoCEv2" "annex" "a packet of another IP version is dropped";
    "CA17-28" "RoCEv2" "annex" "no raw datagrams";
    "CA17-29" "RoCEv2" "annex" "FECN and BECN of the BTH are ignored" else "S09_6_1_RESERVED_BITS_RC, _UC and _UD: packets with them are taken";
    "CA17-31" "RoCEv2" "annex" "no client reregistration";
    "CA17-32" "RoCEv2" "annex" "no event of a port's change";
    "CA17-33" "RoCEv2" "annex" "a packet for queue pair 0 is dropped";
    "CA17-34" "CM" "annex" "RoCEv2: the LIDs of a REQ are not looked at";
    "CA17-35" "CM" "annex" "RoCEv2: no REJ for LIDs, codes 13 and 19";
    "CA17-36" "CM" "annex" "RoCEv2: the LIDs of a LAP are not looked at";
    "CA17-37" "CM" "annex" "RoCEv2: no APR for LIDs, code 7";
    "CA17-38" "CM" "annex" "RoCEv2: the LID of a SAP is not looked at";
    "CA17-39" "RoCEv2" "annex" "transport errors are looked for in each packet that comes" else "the tests of chapter 9";
    "CA17-40" "RoCEv2" "annex" "RoCE or RoCEv2 as the GID's type says, of a connection; ferroce has RoCEv2 alone";
    "CA17-41" "RoCEv2" "annex" "the type of the GID that a packet came to is looked at; ferroce has RoCEv2 alone";
    "CA17-42" "RoCEv2" "annex" "RoCE or RoCEv2 as the GID's type says, of datagrams; ferroce has RoCEv2 alone";
    "CA17-43" "RoCEv2" "annex" "datagrams of both are taken; ferroce has RoCEv2 alone";
    "CA17-44" "RoCEv2" "annex" "congestion management: packets that are marked are answered by a CNP" else "`robust/…/marked packets, dcqcn`";
    "CA17-45" "RoCEv2" "annex" "congestion management: a CNP slows its queue pair down" else "`robust/…/marked packets, dcqcn`; its path, so that others may go slower, too";
    "CA17-46" "RoCEv2" "annex" "congestion management: when a queue pair gets faster again" else "tests of `provider/transport/src/congestion/dcqcn.rs`";
    "oA19-1" "RC" "mail" "FLUSH: answered when what came before it is placed, and not before";
    "oA19-2" "RC" "mail" "FLUSH: one packet, no payload" else "`tools/sim/tests/flush.rs`";
    "oA19-5" "RC" "mail" "FLUSH: its opcode" else "`tools/sim/tests/flush.rs`";
    "oA19-6" "RC" "mail" "FLUSH: no solicited event";
    "oA19-13" "RC" "Linux" "FLUSH: what is refused, a placement that the region does not allow for one";
    "oA19-14" "RC" "here" "FLUSH: duplicates are answered again";
    "oA19-15" "RC" "here" "FLUSH: duplicates are not carried out again" else "`tools/sim/tests/flush.rs`";
    "oA19-28" "RC" "Linux" "ATOMIC WRITE: the region must be valid" else "`tools/sim/tests/words.rs`";
};

/// The statement that a number is about, in whatever spelling: its own, or the nearest that it is
/// below (`o14-13.1` is of `o14-13`).
pub fn about(number: &str) -> Option<&'static Known> {
    static ROWS: OnceLock<Vec<(String, &'static Known)>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        let canonical = |known: &'static Known| Some((canonical(known.number)?, known));
        ALL.iter().filter_map(canonical).collect()
    });
    let number = canonical(number)?;
    let is_of = |row: &&(String, &'static Known)| {
        let rest = number.strip_prefix(row.0.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let nearest = rows.iter().filter(is_of).max_by_key(|(row, _)| row.len());
    nearest.map(|(_, known)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_is_one_and_stands_once() {
        let mut seen = BTreeSet::new();
        for known in ALL {
            let number = canonical(known.number);
            assert!(number.is_some(), "{} is no number", known.number);
            assert!(seen.insert(number), "{} stands twice", known.number);
        }
    }

    #[test]
    fn what_is_below_a_number_is_its_own_where_it_has_a_row() {
        let of = |number| about(number).map(|known| known.number);
        assert_eq!(of("o14-13.1"), Some("o14-13"));
        assert_eq!(of("v1c09-043"), Some("C9-43"));
        assert_eq!(of("C9-43.1.1"), Some("C9-43.1.1"));
        assert_eq!(of("C9-4"), None);
        assert_eq!(of("9.7.6"), None);
    }

    #[test]
    fn each_source_is_explained() {
        for known in ALL {
            let explained = SOURCES.iter().any(|(short, _)| *short == known.source);
            assert!(explained, "{}: {}", known.number, known.source);
        }
    }

    #[test]
    fn the_kind_is_that_of_the_number() {
        let kind = |number| {
            let known = ALL.iter().find(|known| known.number == number);
            known.map(Known::kind)
        };
        assert_eq!(kind("C9-60"), Some("C"));
        assert_eq!(kind("o14-13"), Some("o"));
        assert_eq!(kind("CA17-24"), Some("CA"));
        assert_eq!(kind("oA19-14"), Some("oA"));
    }
}
