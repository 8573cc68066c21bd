//! RDMA FLUSH over real sockets: visible memory of every kind, and files that are written back
//! before the answer.

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use common::*;
use ferroce_engine::*;

const WRITE: u32 = 3;
const ON_DEMAND: u32 = 64;
const GLOBAL: u32 = 256;
const PERSISTENT: u32 = 512;
const PAGE: usize = 4096;

struct Pair {
    _a: Host,
    b: Host,
    cq: Arc<Cq>,
    cq_b: Arc<Cq>,
    qa: Arc<Qp>,
    qb: Arc<Qp>,
}

fn pair(net: u8) -> Pair {
    let (a, b) = (
        Host::new(&format!("127.0.{net}.1")),
        Host::new(&format!("127.0.{net}.2")),
    );
    let (cq, cq_b) = (a.cq(64), b.cq(64));
    let (qa, qb) = (a.qp(&cq, CAP), b.qp(&cq_b, CAP));
    connect((&a, &qa), (&b, &qb));
    Pair {
        _a: a,
        b,
        cq,
        cq_b,
        qa,
        qb,
    }
}

fn post(qp: &Qp, op: SendOp, data: SendData<'_>, dest: Dest) {
    let request = SendRequest {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
        data,
        dest,
    };
    qp.post_send(&request).unwrap();
}

impl Pair {
    fn write(&self, va: u64, rkey: u32, bytes: &[u8]) {
        let data = SendData::Inline(bytes);
        post(&self.qa, SendOp::Write { va, rkey }, data, Dest::Connected);
        assert_eq!(wait(&self.cq, 1)[0].status, 0);
    }

    /// Flushes and returns the status.
    fn flush(&self, flush: Flush) -> u32 {
        let op = SendOp::Flush(flush);
        post(&self.qa, op, SendData::Sges(&[]), Dest::Connected);
        let wc = wait(&self.cq, 1)[0];
        assert_eq!(wc.opcode, 8, "IBV_WC_FLUSH");
        wc.status
    }
}

fn range(mr: &Mr, va: u64, len: u32, placement: Placement) -> Flush {
    Flush {
        va,
        rkey: mr.rkey(),
        len,
        placement,
        selectivity: Selectivity::Range,
    }
}

fn whole(mr: &Mr, placement: Placement) -> Flush {
    Flush {
        selectivity: Selectivity::Region,
        ..range(mr, 1, 1 << 30, placement)
    }
}

/// Mapped memory, which is unmapped again at the end.
struct Mapping {
    addr: u64,
    len: usize,
}

impl Mapping {
    fn new(file: Option<&File>, len: usize, flags: i32) -> Mapping {
        let (fd, flags) = match file {
            Some(file) => (file.as_raw_fd(), flags),
            None => (-1, flags | libc::MAP_ANONYMOUS),
        };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping.
        let addr = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, fd, 0) };
        assert_ne!(addr, libc::MAP_FAILED);
        let addr = addr as u64;
        Mapping { addr, len }
    }

    /// KiB of it that were written to and not yet written back.
    fn dirty(&self) -> u32 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begins = format!("{:x}-", self.addr);
        let of_it = smaps.lines().skip_while(|line| !line.starts_with(&begins));
        let kib = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            let counts = matches!(name, "Shared_Dirty" | "Private_Dirty");
            counts.then(|| rest.trim().trim_end_matches(" kB").parse::<u32>().unwrap())
        };
        of_it.filter_map(kib).take(2).sum()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.addr as *mut _, self.len) };
    }
}

/// A file of some pages below `target`, where builds are on storage. `None`, aloud, where they are
/// in memory.
fn stored(dir: &tempfile::TempDir, pages: usize) -> Option<(File, Mapping)> {
    let path = dir.path().join("data");
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .unwrap();
    file.set_len((pages * PAGE) as u64).unwrap();

    // SAFETY: all bits zero is a valid value of these integers, which the call fills in.
    let kind = unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::fstatfs(file.as_raw_fd(), &raw mut system), 0);
        system.f_type
    };

    if kind == libc::TMPFS_MAGIC {
        eprintln!("skipped: {} is in memory", dir.path().display());
        return None;
    }

    let mapping = Mapping::new(Some(&file), pages * PAGE, libc::MAP_SHARED);
    Some((file, mapping))
}

fn on_storage() -> tempfile::TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

#[test]
fn any_memory_is_made_visible() {
    let p = pair(60);
    let memory = Mapping::new(None, 2 * PAGE, libc::MAP_PRIVATE);
    let va = memory.addr;
    let mut kinds = vec![WRITE | GLOBAL];
    if p.b.hca.device_attr().odp.rc & 64 != 0 {
        kinds.push(WRITE | GLOBAL | ON_DEMAND);
    }

    for (round, access) in (1..).zip(kinds) {
        let mr = p.b.pd.reg_mr(va, 2 * PAGE as u64, va, access).unwrap();
        p.write(va + 8, mr.rkey(), &[round; 100]);
        assert_eq!(p.flush(range(&mr, va + 8, 100, Placement::GLOBAL)), 0);
        assert_eq!(p.flush(whole(&mr, Placement::GLOBAL)), 0);
        assert_eq!(p.flush(range(&mr, va + 8, 0, Placement::GLOBAL)), 0);
        // SAFETY: mapped, and nobody writes to it now.
        let seen = unsafe { std::slice::from_raw_parts((va + 8) as *const u8, 100) };
        assert_eq!(seen, [round; 100]);
        mr.dereg().unwrap();
    }
}

#[test]
fn on_demand_memory_takes_words_and_flushes_whatever_pages_are_there() {
    let p = pair(61);
    if p.b.hca.device_attr().odp.rc & 128 == 0 {
        eprintln!("skipped: no on-demand paging on this processor");
        return;
    }

    let memory = Mapping::new(None, 2 * PAGE, libc::MAP_PRIVATE);
    let va = memory.addr;
    let access = WRITE | GLOBAL | ON_DEMAND;
    let mr = p.b.pd.reg_mr(va, 2 * PAGE as u64, va, access).unwrap();
    for round in 1..=2u8 {
        // SAFETY: its own mapping; its pages go.
        unsafe { libc::madvise(va as *mut _, 2 * PAGE, libc::MADV_DONTNEED) };
        let word = SendOp::AtomicWrite {
            va: va + 16,
            rkey: mr.rkey(),
        };
        let data = SendData::Inline(&[round; 8]);
        post(&p.qa, word, data, Dest::Connected);
        assert_eq!(wait(&p.cq, 1)[0].status, 0);
        assert_eq!(p.flush(whole(&mr, Placement::GLOBAL)), 0);
        // SAFETY: mapped and aligned, and nobody writes to it now.
        let seen = unsafe { ((va + 16) as *const [u8; 8]).read_volatile() };
        assert_eq!(seen, [round; 8]);
    }
}

#[test]
fn through_a_window_its_part_of_the_region_is_flushed() {
    let p = pair(66);
    let memory = Mapping::new(None, PAGE, libc::MAP_PRIVATE);
    let va = memory.addr;
    let bindable = WRITE | Access::MW_BIND.bits();
    let mr = p.b.pd.reg_mr(va, PAGE as u64, va, bindable).unwrap();
    let window = p.b.pd.alloc_mw(MwType::Two).unwrap();
    let rkey = window.first_rkey() ^ 1;
    let bind = SendOp::BindMw(WindowBind {
        window: window.handle(),
        rkey,
        lkey: mr.lkey(),
        access: Access::REMOTE_WRITE | Access::FLUSH_GLOBAL,
        addr: va + 64,
        len: 64,
    });

    post(&p.qb, bind, SendData::Sges(&[]), Dest::Connected);
    assert_eq!(wait(&p.cq_b, 1)[0].status, 0);

    let word = SendOp::AtomicWrite { va: va + 64, rkey };
    post(&p.qa, word, SendData::Inline(&[9; 8]), Dest::Connected);
    assert_eq!(wait(&p.cq, 1)[0].status, 0);
    let part = Flush {
        rkey,
        ..range(&mr, va + 64, 64, Placement::GLOBAL)
    };
    assert_eq!(p.flush(part), 0);
    let whole = Flush {
        selectivity: Selectivity::Region,
        ..part
    };
    assert_eq!(p.flush(whole), 0);

    // The region itself may not be flushed, and the window's part ends where it ends.
    let beyond = Flush { len: 65, ..part };
    assert_eq!(p.flush(beyond), WcStatus::RemAccessErr as u32);
}

#[test]
fn a_file_is_written_back_before_the_answer() {
    let dir = on_storage();
    let Some((_file, memory)) = stored(&dir, 4) else {
        return;
    };

    let p = pair(62);
    let (va, len) = (memory.addr, 4 * PAGE as u64);
    let access = WRITE | GLOBAL | PERSISTENT;
    let mr = p.b.pd.reg_mr(va, len, va, access).unwrap();
    let all = Placement::all();
    assert_eq!(p.flush(whole(&mr, Placement::PERSISTENT)), 0);
    assert_eq!(memory.dirty(), 0);

    for page in [0, 1, 3] {
        p.write(va + page * PAGE as u64 + 10, mr.rkey(), &[7; 20]);
    }
    assert_eq!(memory.dirty(), 12);

    // Visible is not stored, and nothing is nothing.
    assert_eq!(p.flush(whole(&mr, Placement::GLOBAL)), 0);
    assert_eq!(p.flush(range(&mr, va, 0, all)), 0);
    assert_eq!(memory.dirty(), 12);

    // A range is stored with the pages around it, and no others.
    let edge = va + PAGE as u64 - 1;
    assert_eq!(p.flush(range(&mr, edge, 2, all)), 0);
    assert_eq!(memory.dirty(), 4);
    assert_eq!(p.flush(whole(&mr, Placement::PERSISTENT)), 0);
    assert_eq!(memory.dirty(), 0);
    let stored = std::fs::read(dir.path().join("data")).unwrap();
    assert_eq!(stored[3 * PAGE + 10..3 * PAGE + 30], [7; 20]);
}

#[test]
fn what_cannot_be_stored_is_not_answered() {
    let dir = on_storage();
    let Some((_file, memory)) = stored(&dir, 2) else {
        return;
    };
    let p = pair(63);
    let (va, len) = (memory.addr, 2 * PAGE as u64);
    let mr = p.b.pd.reg_mr(va, len, va, WRITE | PERSISTENT).unwrap();
    // Against the rules the program unmaps what it has registered.
    drop(memory);
    let status = p.flush(whole(&mr, Placement::PERSISTENT));
    assert_eq!(status, WcStatus::RemOpErr as u32);
    assert_eq!(p.qb.state(), QpState::Err);
}

#[test]
fn rights_are_looked_at() {
    let p = pair(64);
    let memory = Mapping::new(None, PAGE, libc::MAP_PRIVATE);
    let mr =
        p.b.pd
            .reg_mr(memory.addr, PAGE as u64, memory.addr, WRITE)
            .unwrap();
    let status = p.flush(range(&mr, memory.addr, 8, Placement::GLOBAL));
    assert_eq!(status, WcStatus::RemAccessErr as u32);
}

#[test]
fn only_files_on_storage_are_registered_as_persistent() {
    let b = Host::new("127.0.65.1");
    let refused = |memory: &Mapping, access| {
        let (addr, len) = (memory.addr, memory.len as u64);
        let registered = b.pd.reg_mr(addr, len, addr, access | WRITE);
        registered.err().map(|error| error.errno())
    };

    let everything = |memory: &Mapping| {
        assert_eq!(refused(memory, PERSISTENT), Some(libc::EINVAL));
        assert_eq!(refused(memory, PERSISTENT | GLOBAL), Some(libc::EINVAL));
        assert_eq!(refused(memory, GLOBAL), None);
    };
    everything(&Mapping::new(None, PAGE, libc::MAP_PRIVATE));
    everything(&Mapping::new(None, PAGE, libc::MAP_SHARED));
    let in_memory = tempfile::tempfile_in("/dev/shm").unwrap();
    in_memory.set_len(PAGE as u64).unwrap();
    everything(&Mapping::new(Some(&in_memory), PAGE, libc::MAP_SHARED));
    assert!(b.pd.reg_mr(0, u64::MAX, 0, PERSISTENT | ON_DEMAND).is_err());

    let dir = on_storage();
    let Some((file, memory)) = stored(&dir, 2) else {
        return;
    };

    everything(&Mapping::new(Some(&file), PAGE, libc::MAP_PRIVATE));
    assert_eq!(refused(&memory, PERSISTENT), None);

    // Changed to it later, and of a file that nobody finds again.
    let (addr, len) = (memory.addr, memory.len as u64);
    let mr = b.pd.reg_mr(addr, len, addr, WRITE).unwrap();
    let rereg = |access| mr.rereg(None, None, Some(access)).err().map(|e| e.errno());
    assert_eq!(rereg(WRITE | PERSISTENT), None);
    std::fs::remove_file(dir.path().join("data")).unwrap();
    assert_eq!(rereg(WRITE | PERSISTENT), Some(libc::EINVAL));
    everything(&memory);
}
