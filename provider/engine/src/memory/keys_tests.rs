use super::*;

fn table(len: u64) -> (KeyTable, u32) {
    let mut t = KeyTable::default();
    let region = Region {
        addr: 0x1000,
        iova: 0x9000,
        len,
        access: Access::REMOTE_READ,
        pd: 7,
        ..Region::default()
    };
    let key = t.insert(region).unwrap();
    (t, key)
}

#[test]
fn bounds_rights_and_domain_are_checked() {
    let (t, k) = table(100);
    let read = Access::REMOTE_READ;
    let at = |pd, key, va, len, access| {
        let peer = Peer { pd, qpn: 1 };
        t.remote(peer, key, va, len, access, |piece| Ok(piece.addr))
    };
    assert_eq!(at(7, k, 0x9000, 100, read), Ok(0x1000));
    assert_eq!(at(7, k, 0x9064, 0, read), Ok(0x1064));
    assert_eq!(at(7, k, 0x9001, 100, read), Err(MemoryError::Bounds));
    assert_eq!(at(7, k, 0x8fff, 1, read), Err(MemoryError::Bounds));
    assert_eq!(at(7, k, u64::MAX, 2, read), Err(MemoryError::Bounds));
    assert_eq!(at(7, k, 0x9000, u64::MAX, read), Err(MemoryError::Bounds));
    assert_eq!(
        at(7, k, 0x9000, 1, Access::REMOTE_WRITE),
        Err(MemoryError::Rights)
    );

    assert_eq!(at(8, k, 0x9000, 1, read), Err(MemoryError::Key));
    assert_eq!(at(7, !k, 0x9000, 1, read), Err(MemoryError::Key));
    assert_eq!(
        at(7, k ^ 1, 0x9000, 1, read),
        Err(MemoryError::Key),
        "the low bits count too"
    );
}

#[test]
fn pieces_cover_a_window_of_a_list() {
    let (t, k) = table(100);
    let sge = |addr, length, lkey| Sge { addr, length, lkey };
    let sges = [sge(0x9000, 10, k), sge(0x9020, 0, 0), sge(0x9030, 20, k)];
    let mut got = Vec::new();
    t.pieces(7, &sges, 4, 16, Access::empty(), |p| {
        assert!(!p.fleeting);
        got.push((p.addr, p.len));
        Ok(())
    })
    .unwrap();

    assert_eq!(got, [(0x1004, 6), (0x1030, 10)]);
    assert_eq!(
        t.pieces(7, &sges, 20, 11, Access::empty(), |_| Ok(())),
        Err(MemoryError::Bounds)
    );
}

#[test]
fn a_null_region_reads_zeroes_anywhere_and_keeps_nothing() {
    let mut t = KeyTable::default();
    let key = t
        .insert(Region {
            pd: 7,
            len: u64::MAX,
            access: Access::LOCAL_WRITE,
            null: true,
            ..Region::default()
        })
        .unwrap();

    let sges = [Sge {
        addr: 0xdead_beef,
        length: 10_000,
        lkey: key,
    }];

    t.pieces(7, &sges, 0, 10_000, Access::LOCAL_WRITE, |p| {
        // SAFETY: the sink takes a piece of this length.
        unsafe { copies::place(p.addr, vec![0xff; p.len][..].into()) }
    })
    .unwrap();

    let mut total = 0;
    t.pieces(7, &sges, 1, 9_999, Access::empty(), |p| {
        total += p.len;
        // SAFETY: a piece is readable.
        let bytes = unsafe { std::slice::from_raw_parts(p.addr as *const u8, p.len) };
        assert!(bytes.iter().all(|b| *b == 0));
        Ok(())
    })
    .unwrap();

    assert_eq!(total, 9_999);
    let peer = Peer { pd: 7, qpn: 1 };
    for access in [
        Access::REMOTE_READ,
        Access::REMOTE_WRITE,
        Access::REMOTE_ATOMIC,
    ] {
        assert_eq!(
            t.remote(peer, key, 0, 1, access, |_| Ok(())),
            Err(MemoryError::Rights)
        );
    }
}

#[test]
fn keys_differ_in_more_than_their_low_bits() {
    let mut t = KeyTable::default();
    let mut indexes = std::collections::HashSet::new();
    for _ in 0..1000 {
        let key = t.insert(Region::default()).unwrap();
        assert!(index(key) != 0 && indexes.insert(index(key)));
    }
}
