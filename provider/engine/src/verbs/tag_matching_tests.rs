//! Tests of the list of tagged buffers and of the headers that it reads.

use super::*;

fn add(list: &mut List, recv_wr_id: u64, tag: u64, mask: u64, handled: Option<u32>) -> (u32, Wc) {
    let sges = [Sge {
        addr: 0,
        length: 64,
        lkey: 1,
    }];
    let what = TagWork::Add {
        recv_wr_id,
        sges: &sges,
        tag,
        mask,
    };
    list.operate(&op(what, handled), 4).unwrap()
}

fn op(what: TagWork<'_>, handled: Option<u32>) -> TagOp<'_> {
    TagOp {
        wr_id: 77,
        signaled: true,
        handled,
        what,
    }
}

fn taken(list: &mut List, tag: u64) -> Option<u64> {
    list.take(tag).map(|b| b.recv_wr_id)
}

#[test]
fn the_first_buffer_that_matches_is_taken() {
    let mut list = List::default();
    add(&mut list, 1, 0x10, 0xff, None);
    add(&mut list, 2, 0, 0, None); // any tag
    add(&mut list, 3, 0x20, 0xff, None);
    assert_eq!(taken(&mut list, 0xab20), Some(2));
    assert_eq!(taken(&mut list, 0xab20), Some(3));
    assert_eq!(taken(&mut list, 0xab20), None);
    assert_eq!(taken(&mut list, 0x10), Some(1));
}

#[test]
fn a_buffer_added_in_ignorance_waits_for_agreement() {
    let mut list = List::default();
    add(&mut list, 1, 1, 0xff, Some(0));
    assert_eq!(list.unexpected(), 0);

    // The program has not seen that message: it may be for this buffer.
    let (_, wc) = add(&mut list, 2, 2, 0xff, Some(0));
    assert_eq!((wc.opcode, wc.wc_flags), (WC_TM_ADD, WC_TM_SYNC_REQ));
    assert_eq!(taken(&mut list, 2), None);

    // What was there before matches on.
    assert_eq!(taken(&mut list, 1), Some(1));
    let (_, wc) = list.operate(&op(TagWork::Sync, Some(1)), 4).unwrap();
    assert_eq!((wc.opcode, wc.wc_flags, wc.wr_id), (WC_TM_SYNC, 0, 77));
    assert_eq!(taken(&mut list, 2), Some(2));

    // Counts wrap at 16 bits, which is all that some programs keep.
    for _ in 1..=0xffff {
        list.unexpected();
    }
    assert_eq!(list.arrived, 0);
    add(&mut list, 3, 3, 0xff, Some(0x1_0000));
    assert_eq!(taken(&mut list, 3), Some(3));
}

#[test]
fn a_program_far_behind_is_asked() {
    let mut list = List::default();
    let asked: Vec<bool> = (0..FAR_BEHIND + 2)
        .map(|_| list.unexpected() != 0)
        .collect();
    let first = asked.iter().position(|asked| *asked);
    assert_eq!(first, Some(usize::from(FAR_BEHIND)));
    list.operate(&op(TagWork::Sync, Some(u32::from(list.arrived))), 4)
        .unwrap();
    assert_eq!(list.unexpected(), 0);
}

#[test]
fn a_buffer_that_is_gone_cannot_be_removed() {
    let mut list = List::default();
    let (kept, _) = add(&mut list, 1, 1, 0xff, None);
    let (used, _) = add(&mut list, 2, 2, 0xff, None);
    assert_eq!(taken(&mut list, 2), Some(2));
    let mut remove = |handle| {
        let (_, wc) = list.operate(&op(TagWork::Remove(handle), None), 4).unwrap();
        (wc.opcode, wc.status)
    };
    assert_eq!(remove(used), (WC_TM_DEL, WC_TM_ERR));
    assert_eq!(remove(kept), (WC_TM_DEL, 0));
    assert_eq!(remove(kept), (WC_TM_DEL, WC_TM_ERR));
    assert!(list.buffers.is_empty());
}

#[test]
fn the_list_is_bounded() {
    let mut list = List::default();
    for i in 0..4 {
        add(&mut list, i, i, 0xff, None);
    }
    let what = TagWork::Add {
        recv_wr_id: 9,
        sges: &[],
        tag: 9,
        mask: 0xff,
    };

    // Refused as a whole: what it says of unexpected messages does not count either.
    assert!(matches!(
        list.operate(&op(what, Some(5)), 4),
        Err(Error::Full(_))
    ));

    assert!(list.agrees());
    let many = [Sge::default(); limits::MAX_SGE as usize + 1];
    let what = TagWork::Add {
        recv_wr_id: 9,
        sges: &many,
        tag: 9,
        mask: 0xff,
    };

    assert!(matches!(
        list.operate(&op(what, None), 40),
        Err(Error::Invalid(_))
    ));
}

#[test]
fn headers_are_read_as_they_stand() {
    let mut message = [0u8; 40];
    message[0] = TMH_RNDV;
    message[4..8].copy_from_slice(&0x0102_0304u32.to_be_bytes());
    message[8..16].copy_from_slice(&0x1122_3344_5566_7788u64.to_be_bytes());
    message[16..24].copy_from_slice(&0xdead_beef_0000u64.to_be_bytes());
    message[24..28].copy_from_slice(&0x99u32.to_be_bytes());
    message[28..32].copy_from_slice(&4096u32.to_be_bytes());
    let parse = |bytes: &[u8], only| Header::parse(bytes.into(), only);
    let header = parse(&message, true).unwrap();
    let info = TagInfo {
        tag: 0x1122_3344_5566_7788,
        app_ctx: 0x0102_0304,
    };
    assert_eq!(header.info, info);
    let announced = header.rendezvous.unwrap();
    assert_eq!(
        (announced.va, announced.rkey, announced.len),
        (0xdead_beef_0000, 0x99, 4096)
    );

    // Not whole, or too long, or in several packets: the program's.
    assert!(parse(&message[..31], true).is_none());
    assert!(parse(&message, false).is_none());
    assert!(parse(&[TMH_RNDV; 1000], true).is_none());
    message[0] = TMH_EAGER;
    assert!(parse(&message[..16], false).unwrap().rendezvous.is_none());
    assert!(parse(&message[..15], true).is_none());
    for opcode in [0, TMH_FIN, 4, 0xff] {
        message[0] = opcode;
        assert!(parse(&message, true).is_none());
    }

    assert!(parse(&[], true).is_none());
}

#[test]
fn lists_are_cut_to_the_data() {
    let sge = |length| Sge {
        addr: 1,
        length,
        lkey: 1,
    };
    let mut sges = SmallVec::from_slice(&[sge(10), sge(0), sge(10), sge(10)]);
    assert!(cut(&mut sges, 15));
    assert_eq!(sges.iter().map(|s| s.length).collect::<Vec<_>>(), [10, 5]);
    assert!(!cut(&mut sges, 16));
    assert_eq!(sges.len(), 2);
    assert!(cut(&mut sges, 0) && sges.is_empty());
}
