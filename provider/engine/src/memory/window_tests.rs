use super::*;
use crate::error::Error;
use crate::memory::keys::Region;

const PD: u32 = 7;
const QP: Peer = Peer { pd: PD, qpn: 100 };
const OTHER_QP: Peer = Peer { pd: PD, qpn: 101 };
const OTHER_PD: Peer = Peer { pd: 8, qpn: 100 };

struct Fixture {
    table: KeyTable,
    lkey: u32,
    rkey: u32,
}

impl Fixture {
    fn new(kind: MwType, access: Access) -> Fixture {
        let mut table = KeyTable::default();
        let lkey = table
            .insert(Region {
                addr: 0x1000,
                iova: 0x9000,
                len: 100,
                access,
                pd: PD,
                ..Region::default()
            })
            .unwrap();

        let rkey = table
            .insert_window(|rkey| Window::new(kind, PD, rkey))
            .unwrap();
        Fixture { table, lkey, rkey }
    }

    fn of(kind: MwType) -> Fixture {
        Fixture::new(kind, Access::LOCAL_WRITE | Access::MW_BIND)
    }

    /// The next key of the window, as `ibv_inc_rkey` makes it.
    fn next(&self) -> u32 {
        self.rkey & !0xff | self.rkey.wrapping_add(1) & 0xff
    }

    fn request(&self) -> WindowBind {
        WindowBind {
            window: keys::index(self.rkey),
            rkey: self.next(),
            lkey: self.lkey,
            access: Access::REMOTE_WRITE,
            addr: 0x9010,
            len: 16,
        }
    }

    fn bind(&self) {
        self.table.bind(QP, &self.request()).unwrap();
    }

    fn access(&self, by: Peer, key: u32, va: u64, len: u64) -> Result<u64, MemoryError> {
        let access = Access::REMOTE_WRITE;
        self.table.remote(by, key, va, len, access, |p| Ok(p.addr))
    }
}

#[test]
fn a_bound_window_gives_its_part_of_the_region_and_no_more() {
    for kind in [MwType::One, MwType::Two] {
        let f = Fixture::of(kind);
        assert_eq!(f.access(QP, f.rkey, 0x9010, 1), Err(MemoryError::Key));
        f.bind();
        let k = f.next();
        assert_eq!(f.access(QP, k, 0x9010, 16), Ok(0x1010));
        assert_eq!(f.access(QP, k, 0x901f, 1), Ok(0x101f));
        assert_eq!(f.access(QP, k, 0x9010, 17), Err(MemoryError::Bounds));
        assert_eq!(f.access(QP, k, 0x900f, 1), Err(MemoryError::Bounds));
        assert_eq!(f.access(QP, k, 0x9010, u64::MAX), Err(MemoryError::Bounds));
        assert_eq!(f.access(QP, f.rkey, 0x9010, 1), Err(MemoryError::Key));
        assert_eq!(f.access(OTHER_PD, k, 0x9010, 1), Err(MemoryError::Key));
        assert_eq!(
            f.table
                .remote(QP, k, 0x9010, 1, Access::REMOTE_READ, |_| Ok(())),
            Err(MemoryError::Rights)
        );

        // A remote key is no local one.
        assert!(f.table.local(PD, k, Access::empty()).is_err());
    }
}

#[test]
fn type_2_belongs_to_its_queue_pair_and_type_1_to_the_domain() {
    let one = Fixture::of(MwType::One);
    one.bind();
    assert!(one.access(OTHER_QP, one.next(), 0x9010, 1).is_ok());
    let two = Fixture::of(MwType::Two);
    two.bind();
    assert_eq!(
        two.access(OTHER_QP, two.next(), 0x9010, 1),
        Err(MemoryError::Key)
    );
    two.table.forget_qp(OTHER_QP.qpn);
    assert!(two.access(QP, two.next(), 0x9010, 1).is_ok());
    two.table.forget_qp(QP.qpn);
    assert_eq!(two.access(QP, two.next(), 0x9010, 1), Err(MemoryError::Key));
}

#[test]
fn a_zero_based_window_counts_from_its_start() {
    let f = Fixture::of(MwType::Two);
    let mut request = f.request();
    request.access |= Access::ZERO_BASED;
    f.table.bind(QP, &request).unwrap();
    assert_eq!(f.access(QP, f.next(), 0, 16), Ok(0x1010));
    assert_eq!(f.access(QP, f.next(), 1, 16), Err(MemoryError::Bounds));
    assert_eq!(f.access(QP, f.next(), 0x9010, 1), Err(MemoryError::Bounds));
}

#[test]
fn refused_binds_change_nothing() {
    let refused = |f: &Fixture, by: Peer, change: &dyn Fn(&mut WindowBind), why| {
        let mut request = f.request();
        change(&mut request);
        assert_eq!(f.table.bind(by, &request), Err(why));
        assert!(f.access(QP, request.rkey, 0x9010, 1).is_err());
        let region = f.table.region(f.lkey).unwrap();
        assert_eq!(region.windows.load(Ordering::Relaxed), 0);
    };

    for kind in [MwType::One, MwType::Two] {
        let f = Fixture::of(kind);
        refused(&f, OTHER_PD, &|_| {}, MemoryError::Key);
        refused(&f, QP, &|b| b.window += 1, MemoryError::Key);
        refused(&f, QP, &|b| b.rkey ^= 0x100, MemoryError::Key);
        refused(&f, QP, &|b| b.lkey ^= 1, MemoryError::Key);
        refused(&f, QP, &|b| b.addr -= 0x11, MemoryError::Bounds);
        refused(&f, QP, &|b| b.len = 85, MemoryError::Bounds);
        refused(&f, QP, &|b| b.len = u64::MAX, MemoryError::Bounds);
        let bindable = |b: &mut WindowBind| b.access |= Access::MW_BIND;
        refused(&f, QP, &bindable, MemoryError::Rights);
        let no_bind = Fixture::new(kind, Access::LOCAL_WRITE);
        refused(&no_bind, QP, &|_| {}, MemoryError::Rights);
        let no_write = Fixture::new(kind, Access::MW_BIND);
        refused(&no_write, QP, &|_| {}, MemoryError::Rights);
        let atomic = |b: &mut WindowBind| b.access = Access::REMOTE_ATOMIC;
        refused(&no_write, QP, &atomic, MemoryError::Rights);
    }

    let two = Fixture::of(MwType::Two);
    refused(&two, QP, &|b| b.len = 0, MemoryError::Rights);
    two.bind();
    assert_eq!(
        two.table.bind(QP, &two.request()),
        Err(MemoryError::Rights),
        "bound already"
    );
}

#[test]
fn a_region_lives_as_long_as_windows_are_bound_to_it() {
    let mut f = Fixture::of(MwType::One);
    f.bind();
    let busy = |f: &mut Fixture| matches!(f.table.remove(f.lkey), Err(Error::Busy(_)));
    assert!(busy(&mut f));
    f.bind();
    assert!(busy(&mut f));
    let unbind = WindowBind {
        len: 0,
        ..f.request()
    };
    f.table.bind(QP, &unbind).unwrap();
    assert_eq!(f.access(QP, f.next(), 0x9010, 1), Err(MemoryError::Key));
    assert!(f.table.remove(f.lkey).is_ok());

    let mut f = Fixture::of(MwType::Two);
    f.bind();
    assert!(busy(&mut f));
    f.table.remove_window(keys::index(f.rkey));
    assert_eq!(f.access(QP, f.next(), 0x9010, 1), Err(MemoryError::Key));
    assert!(f.table.remove(f.lkey).is_ok());
}

#[test]
fn invalidation_is_for_type_2_and_its_queue_pair() {
    let mut two = Fixture::of(MwType::Two);
    two.bind();
    let k = two.next();
    assert_eq!(two.table.invalidate(OTHER_PD, k), Err(MemoryError::Key));
    assert_eq!(two.table.invalidate(OTHER_QP, k), Err(MemoryError::Rights));
    assert_eq!(two.table.invalidate(QP, two.rkey), Err(MemoryError::Key));
    assert_eq!(
        two.table.invalidate(QP, two.lkey),
        Err(MemoryError::Rights),
        "a region's key"
    );

    assert!(two.access(QP, k, 0x9010, 1).is_ok());
    assert_eq!(two.table.invalidate(QP, k), Ok(()));
    assert_eq!(two.access(QP, k, 0x9010, 1), Err(MemoryError::Key));
    two.rkey = k;
    two.bind();
    assert!(two.access(QP, two.next(), 0x9010, 1).is_ok());

    let one = Fixture::of(MwType::One);
    one.bind();
    assert_eq!(
        one.table.invalidate(QP, one.next()),
        Err(MemoryError::Rights)
    );

    assert!(one.access(QP, one.next(), 0x9010, 1).is_ok());
}

#[test]
fn an_access_ends_before_the_bind_that_takes_it_away() {
    use std::sync::atomic::{AtomicBool, AtomicU32};

    let f = Fixture::of(MwType::One);
    let (over, inside, accesses) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let mut rkey = f.rkey;
    let mut bind = || {
        rkey = rkey & !0xff | rkey.wrapping_add(1) & 0xff;
        f.table
            .bind(
                QP,
                &WindowBind {
                    rkey,
                    ..f.request()
                },
            )
            .unwrap();
        rkey
    };

    let current = AtomicU32::new(bind());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let key = current.load(Ordering::SeqCst);
                let access = Access::REMOTE_WRITE;
                let _ = f.table.remote(OTHER_QP, key, 0x9010, 1, access, |_| {
                    inside.store(key, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.store(0, Ordering::SeqCst);
                    accesses.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                });
            }
        });

        while accesses.load(Ordering::SeqCst) < 2000 {
            let old = current.load(Ordering::SeqCst);
            let new = bind();
            // Whoever used the old key has ended.
            assert_ne!(inside.load(Ordering::SeqCst), old);
            current.store(new, Ordering::SeqCst);
        }

        over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_window_is_flushed_as_far_as_it_goes() {
    let all = Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
    let rights = Access::LOCAL_WRITE | Access::MW_BIND | Access::FLUSH_PERSISTENT;
    let f = Fixture::new(MwType::Two, rights);
    let mut request = f.request();
    request.access = all;
    f.table.bind(QP, &request).unwrap();
    assert_eq!(f.table.extent(QP, f.next()), Ok((0x9010, 16)));
    assert_eq!(f.table.extent(QP, f.lkey), Ok((0x9000, 100)));
    for (by, key) in [(OTHER_QP, f.next()), (OTHER_PD, f.lkey), (QP, f.rkey)] {
        assert_eq!(f.table.extent(by, key), Err(MemoryError::Key));
    }
    let flush = |len| {
        f.table
            .remote(QP, f.next(), 0x9010, len, all, |p| Ok(p.addr))
    };
    assert_eq!(flush(16), Ok(0x1010));
    assert_eq!(flush(17), Err(MemoryError::Bounds));
}

#[test]
fn only_memory_that_was_found_persistent_is_flushed_to_persistence() {
    let f = Fixture::of(MwType::Two);
    let mut request = f.request();
    request.access = Access::FLUSH_PERSISTENT;
    assert_eq!(f.table.bind(QP, &request), Err(MemoryError::Rights));
    // Any memory can be made visible.
    request.access = Access::FLUSH_GLOBAL;
    assert_eq!(f.table.bind(QP, &request), Ok(()));
}
