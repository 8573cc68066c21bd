//! A list of tagged buffers whose messages are whatever the input says, for `tests/fuzz`.

use super::*;

/// Buffers that the list may hold.
const MOST: u32 = 32;
/// Names the queue's ordinary requests, and no buffer.
const ORDINARY: u64 = u64::MAX;

/// A buffer as the program knows it.
struct Known {
    handle: u32,
    tag: u64,
    mask: u64,
    bytes: u64,
}

/// The list, the program's own account of it, and whether a message has found a buffer.
#[derive(Default)]
struct Trial {
    list: List,
    known: Vec<Known>,
    matched: bool,
}

/// A list under any sequence of operations and messages: a byte that says what, one that says of
/// what, one of length, and so many bytes, of messages the payload. A message takes the buffer that
/// it matches and no other, and no byte beyond it.
pub(crate) fn tag_matching(mut input: &[u8]) -> bool {
    let mut trial = Trial::default();
    while let [what, which, len, rest @ ..] = input {
        let (bytes, rest) = rest.split_at(rest.len().min((*len).into()));
        input = rest;
        match what % 8 {
            0 | 1 => trial.add(*what, *which, bytes),
            2 => trial.remove(*which),
            3 => {
                let handled = Some((*which).into());
                let _ = trial.list.operate(&op(TagWork::Sync, handled), MOST);
            }
            _ => trial.message(bytes, what & 0x80 == 0, which % 4 != 0),
        }
        assert_eq!(trial.list.buffers.len(), trial.known.len());
    }

    trial.matched
}

fn op(what: TagWork<'_>, handled: Option<u32>) -> TagOp<'_> {
    TagOp {
        wr_id: 0,
        signaled: false,
        handled,
        what,
    }
}

impl Trial {
    fn add(&mut self, what: u8, length: u8, tag: &[u8]) {
        let mut bytes = [0; 8];
        let len = tag.len().min(8);
        bytes[8 - len..].copy_from_slice(&tag[..len]);
        let mask = [u64::MAX, 0xff, 0, 0xffff_0000][usize::from(what >> 4 & 3)];
        let tag = u64::from_be_bytes(bytes) & mask;
        let sge = |length| Sge {
            addr: 0x1000,
            length,
            lkey: 1,
        };
        let sges = [sge(length.into()), sge(u32::from(length) * 16)];
        let what = TagWork::Add {
            // The next handle.
            recv_wr_id: u64::from(self.list.last_handle.wrapping_add(1)),
            sges: &sges,
            tag,
            mask,
        };

        // With some the program tells how many messages it has handled.
        let handled = (length % 2 == 1).then_some(self.list.arrived.into());
        let before = self.known.len();
        match self.list.operate(&op(what, handled), MOST) {
            Ok((handle, _)) => self.known.push(Known {
                handle,
                tag,
                mask,
                bytes: u64::from(length) * 17,
            }),
            Err(_) => assert_eq!(before, MOST as usize),
        }
    }

    fn remove(&mut self, which: u8) {
        let handle = u32::from(which);
        let (_, wc) = self
            .list
            .operate(&op(TagWork::Remove(handle), None), MOST)
            .expect("removing is no error");
        let there = self.known.iter().position(|known| known.handle == handle);
        assert_eq!(wc.status == 0, there.is_some());
        if let Some(at) = there {
            self.known.remove(at);
        }
    }

    /// A message comes; `ready`: the queue has an ordinary request.
    fn message(&mut self, payload: &[u8], only: bool, ready: bool) {
        let Some(header) = Header::parse(payload.into(), only) else {
            return;
        };

        let (tag, announced) = (header.info.tag, header.rendezvous.as_ref().map(|r| r.len));
        let arrived = self.list.arrived;
        let mut asked = 0;
        let ordinary = || {
            asked += 1;
            ready.then(|| RecvWqe {
                wr_id: ORDINARY,
                sges: SmallVec::new(),
                skip: 0,
            })
        };

        let Some((wqe, arrival)) = self.list.receive(header, only, ordinary) else {
            assert!(!ready && asked == 1 && self.list.arrived == arrived);
            return;
        };

        if wqe.wr_id == ORDINARY {
            assert!(matches!(arrival, Arrival::Unexpected { .. }) && asked == 1);
            assert_eq!(self.list.arrived, arrived.wrapping_add(1));
            return;
        }

        assert_eq!((asked, self.list.arrived), (0, arrived));
        let at = self
            .known
            .iter()
            .position(|k| u64::from(k.handle) == wqe.wr_id);
        let known = self.known.remove(at.expect("a buffer that is there"));
        assert_eq!(tag & known.mask, known.tag);
        self.matched = true;

        let bytes = |sges: &[Sge]| sges.iter().map(|s| u64::from(s.length)).sum::<u64>();
        match arrival {
            Arrival::Eager { info, completed } => {
                assert_eq!((info.tag, completed, announced), (tag, !only, None));
                assert_eq!((bytes(&wqe.sges), wqe.skip), (known.bytes, TMH as u32));
            }
            Arrival::Rendezvous(r) => {
                let len = u64::from(announced.expect("an announcement"));
                assert!(wqe.sges.is_empty() && r.recv_wr_id == wqe.wr_id);
                assert_eq!(r.fits, len <= known.bytes);
                assert_eq!(bytes(&r.sges), if r.fits { len } else { known.bytes });
            }
            other => panic!("a buffer was taken for {other:?}"),
        }
    }
}
