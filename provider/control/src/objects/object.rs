//! The objects that are told of, and how an entry of the table says what one is.

/// Words of an entry behind its kind that say what the object is. Those after them are numbers,
/// which change more often.
pub(super) const OBJECT: usize = 4;

/// An object, as far as others are told of it. Objects that belong to it are named by their
/// numbers, which are those of the entries but for queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// An open device.
    Context,
    /// A protection domain.
    Pd {
        /// Its context.
        context: u32,
        /// How many objects are in it.
        users: u32,
    },
    /// A completion queue.
    Cq {
        /// Its context.
        context: u32,
        /// Completions that it holds.
        cqe: u32,
        /// How many queues complete into it; a queue pair counts for each of its two.
        users: u32,
    },
    /// A memory region.
    Mr {
        /// Its protection domain.
        pd: u32,
        /// Its key.
        key: u32,
        /// Its length in bytes.
        len: u64,
    },
    /// A shared receive queue.
    Srq {
        /// Its protection domain.
        pd: u32,
        /// Where it completes, if that is not its queue pairs' business.
        cq: Option<u32>,
        /// `enum ib_srq_type`: 0 basic, 1 XRC, 2 matching tags.
        srq_type: u8,
    },
    /// A queue pair.
    Qp(QueuePair),
}

/// A queue pair, with attributes as `ibv_query_qp(3)` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePair {
    /// Its number, 24 bits.
    pub number: u32,
    /// `enum ibv_qp_type`.
    pub qp_type: u8,
    /// `enum ibv_qp_state`.
    pub state: u8,
    /// Its port; 0: none yet.
    pub port: u8,
    /// Its protection domain; an XRC target has none.
    pub pd: Option<u32>,
    /// Its shared receive queue.
    pub srq: Option<u32>,
    /// Its peer's number.
    pub remote: u32,
    /// PSN of its send queue, 24 bits.
    pub sq_psn: u32,
    /// PSN of its receive queue, 24 bits.
    pub rq_psn: u32,
    /// Its row of numbers, in the table where its entry is.
    pub row: u16,
}

/// Kinds of entries; 0 is none.
const CONTEXT: u64 = 1;
const PD: u64 = 2;
const CQ: u64 = 3;
const MR: u64 = 4;
const SRQ: u64 = 5;
pub(super) const QP: u64 = 6;

pub(super) fn two(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

pub(super) fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Numbers of entries are small, so one more is 0 for none.
pub(super) fn perhaps(number: Option<u32>) -> u32 {
    number.map_or(0, |number| number + 1)
}

pub(super) fn number(perhaps: u32) -> Option<u32> {
    perhaps.checked_sub(1)
}

impl Object {
    pub(super) fn counts_users(&self) -> bool {
        matches!(self, Object::Pd { .. } | Object::Cq { .. })
    }

    /// Kind, and what is behind it.
    pub(crate) fn words(&self) -> (u64, [u64; OBJECT]) {
        match *self {
            Object::Context => (CONTEXT, [0; 4]),
            Object::Pd { context, users } => (PD, [users.into(), context.into(), 0, 0]),
            Object::Cq {
                context,
                cqe,
                users,
            } => (CQ, [users.into(), two(context, cqe), 0, 0]),
            Object::Mr { pd, key, len } => (MR, [len, two(pd, key), 0, 0]),
            Object::Srq { pd, cq, srq_type } => {
                (SRQ, [srq_type.into(), two(pd, perhaps(cq)), 0, 0])
            }
            Object::Qp(qp) => {
                let kind = u32::from_be_bytes([0, qp.qp_type, qp.state, qp.port]);
                let words = [
                    two(qp.number, kind),
                    two(perhaps(qp.pd), perhaps(qp.srq)),
                    two(qp.row.into(), qp.remote),
                    two(qp.sq_psn, qp.rq_psn),
                ];
                (QP, words)
            }
        }
    }

    pub(super) fn from_words(kind: u64, words: [u64; OBJECT]) -> Option<Object> {
        let [first, second, third, fourth] = words;
        Some(match kind {
            CONTEXT => Object::Context,
            PD => Object::Pd {
                context: second as u32,
                users: first as u32,
            },
            CQ => Object::Cq {
                context: halves(second).0,
                cqe: halves(second).1,
                users: first as u32,
            },
            MR => Object::Mr {
                pd: halves(second).0,
                key: halves(second).1,
                len: first,
            },
            SRQ => Object::Srq {
                pd: halves(second).0,
                cq: number(halves(second).1),
                srq_type: first as u8,
            },
            QP => {
                let [_, qp_type, state, port] = halves(first).1.to_be_bytes();
                Object::Qp(QueuePair {
                    number: halves(first).0,
                    qp_type,
                    state,
                    port,
                    pd: number(halves(second).0),
                    srq: number(halves(second).1),
                    remote: third as u32,
                    sq_psn: halves(fourth).0,
                    rq_psn: halves(fourth).1,
                    row: halves(third).0 as u16,
                })
            }
            _ => return None,
        })
    }
}
