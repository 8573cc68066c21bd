//! The programs (classic BPF) by which the kernel finds the socket of a packet: that of a group,
//! which says the member, and that of a slot's socket, which throws away what is for other slots.

use ferroce_wire::mad::MULTICAST_QPN;
use libc::sock_filter;

/// Where in a packet the top byte of its destination QPN lies, from the start of the BTH.
pub(crate) const DEST_QP_OFFSET: u32 = 5;
/// Where from the start of the BTH the word is that ends in the destination QPN.
const DEST_QP_WORD: u32 = 4;
/// Bytes of an LRH, and of LRH and GRH.
const LRH: u32 = 8;
const LRH_GRH: u32 = 48;
/// Bytes of a UDP header, at which a socket's program begins; a group's begins behind it.
const UDP: u32 = 8;

/// Slots that are looked for one after the other: a jump leads past 255 instructions at most.
const RUN: usize = 16;

/// What the packets of a group begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    /// The BTH.
    Roce,
    /// An LRH, which says whether a GRH comes before the BTH.
    Infiniband,
}

/// A group's: the member that each slot has. Packets for other slots, those too short to have one,
/// and off a cable those of multicast go to member 0.
pub(crate) fn of_group(packets: Packets, members: &[u16]) -> Vec<sock_filter> {
    let mut program = slot_of(packets, 0);
    program.extend([at_least(members.len() as u32, 0, 1), end(0)]);

    // Most have the member of their own number.
    let others = (0..).zip(members).filter(|(slot, member)| slot != *member);
    let others: Vec<(u16, u16)> = others.map(|(slot, member)| (slot, *member)).collect();
    for run in others.chunks(RUN) {
        let (last, _) = run[run.len() - 1];
        program.push(at_least(u32::from(last) + 1, 2 * run.len() as u8, 0));
        for (slot, member) in run {
            program.extend([equal(u32::from(*slot), 0, 1), end(u32::from(*member))]);
        }
    }

    program.push(op(libc::BPF_RET | libc::BPF_A, 0, 0, 0));
    program
}

/// A socket's that gets the packets of one slot, other than 0, alone.
pub(crate) fn of_slot(packets: Packets, slot: u8) -> Vec<sock_filter> {
    let mut program = slot_of(packets, UDP);
    program.extend([equal(slot.into(), 1, 0), end(0), end(u32::MAX)]);
    program
}

/// Loads the slot, `start` bytes being before the packet. What has none leads to the second
/// instruction behind this, or ends with 0.
fn slot_of(packets: Packets, start: u32) -> Vec<sock_filter> {
    let byte = |at: u32| op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, start + at);
    let word = |at: u32| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, start + at);
    let and = |mask| op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask);
    match packets {
        Packets::Roce => vec![byte(DEST_QP_OFFSET)],
        // The low bits of the second byte say what follows: 2 a BTH, 3 a GRH and a BTH.
        Packets::Infiniband => vec![
            byte(1),
            and(3),
            equal(2, 2, 0),
            equal(3, 3, 0),
            end(0),
            word(LRH + DEST_QP_WORD),
            op(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
            word(LRH_GRH + DEST_QP_WORD),
            and(MULTICAST_QPN),
            // Beyond the shift and the comparison that follows.
            equal(MULTICAST_QPN, 2, 0),
            op(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 16),
        ],
    }
}

fn equal(value: u32, yes: u8, no: u8) -> sock_filter {
    op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value)
}

fn at_least(value: u32, yes: u8, no: u8) -> sock_filter {
    op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, yes, no, value)
}

fn end(value: u32) -> sock_filter {
    op(libc::BPF_RET | libc::BPF_K, 0, 0, value)
}

fn op(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}
