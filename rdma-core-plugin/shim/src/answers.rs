//! What ferroced has said of an id along with an event, kept for the questions that librdmacm asks
//! next.
//!
//! An answer is given only while the id's number in ferroced's page of generations is the one that
//! came with it, so it is what ferroced would answer now. Whoever finds an entry in use, by another
//! thread or, in a forked child, for ever, asks ferroced.
//!
//! Nor need anybody wait for the answer to a command that is known to succeed: a connection that
//! may be begun, accepted or ended.

use crate::lock::Lock;
use crate::sys;
use ferroce_cabi::ucma::{
    RDMA_USER_CM_QUERY_ADDR, RDMA_USER_CM_QUERY_GID, RDMA_USER_CM_QUERY_PATH,
};
use ferroce_cabi::ucma_frame::{Answers, CONNECTED, QP_STATES, Record, answer};
use libc::c_int;
use std::cell::UnsafeCell;
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use zerocopy::IntoBytes;

/// How many ids are kept: as many as a server may have in hand at a time. A later one takes an
/// earlier one's place.
const ENTRIES: usize = 1 << 12;
/// How many ids have a generation, and a life.
const GENERATIONS: usize = 1 << 16;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// `RDMA_USER_CM_CMD_QUERY` with this option.
    Query(u32),
    /// `RDMA_USER_CM_CMD_INIT_QP_ATTR` for this state.
    QpAttr(u32),
}

#[repr(C)]
struct Entry {
    lock: Lock,
    kept: UnsafeCell<Kept>,
}

#[repr(C)]
struct Kept {
    /// The number of the channel plus one; 0: there is nothing here.
    channel: u32,
    record: Record,
    answers: Answers,
}

/// The entries, in memory that the kernel gives page by page as they come into use; null: nothing
/// is kept.
static TABLE: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
/// The page of generations, and the inode number of its file.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
static PAGE_INODE: AtomicU64 = AtomicU64::new(0);

/// Takes the page of generations that came with a channel, unless it is the same as before. What an
/// earlier ferroced has said is forgotten. Callers hold the carrier's lock. The descriptor stays
/// the caller's.
pub(crate) fn adopt(page: c_int) {
    let Some(inode) = sys::inode(page) else {
        return;
    };
    if PAGE_INODE.load(Ordering::Relaxed) == inode {
        return;
    }

    let len = 2 * GENERATIONS * size_of::<AtomicU32>();
    let generations = sys::map_shared(page, len);
    if generations.is_null() {
        return;
    }

    // The old page stays mapped: another thread may look at it.
    let table = sys::map_private(ENTRIES * size_of::<Entry>());
    PAGE_INODE.store(inode, Ordering::Relaxed);
    TABLE.store(null_mut(), Ordering::Release);
    PAGE.store(generations.cast(), Ordering::Release);
    TABLE.store(table.cast(), Ordering::Release);
}

/// Forgets all, as ferroced has gone: nothing is known to succeed any more.
pub(crate) fn forget() {
    PAGE_INODE.store(0, Ordering::Relaxed);
    TABLE.store(null_mut(), Ordering::Release);
}

/// Keeps what came with an event of a channel.
pub(crate) fn keep(channel: u16, record: &Record, answers: &Answers) {
    with_entry(record.id, |entry| {
        entry.channel = u32::from(channel) + 1;
        entry.record = *record;
        entry.answers = *answers;
    });
}

/// An id's events come through another channel now; the answers stay what they are.
pub(crate) fn moved(from: u16, to: u16, id: u32) {
    with_entry(id, |entry| {
        if entry.is_about(from, id) {
            entry.channel = u32::from(to) + 1;
        }
    });
}

/// Whether a command of a channel succeeds that makes a connection of an id: one of
/// [`answer::CONNECT`], [`answer::ACCEPT`] and [`answer::ESTABLISH`]. If so it is about to be
/// carried out, and what was known of the id holds no longer.
pub(crate) fn succeeds(channel: u16, id: u32, command: u32) -> bool {
    let succeeds = with_entry(id, |entry| {
        let known = entry.is_about(channel, id)
            && entry.record.answers & command != 0
            && generation(id) == Some(entry.record.generation);
        if known {
            entry.record.answers = 0;
        }
        known
    });
    succeeds == Some(true)
}

/// Whether an id of a channel is or was connected, so that the connection may be ended; as with
/// [`succeeds`].
pub(crate) fn is_connected(channel: u16, id: u32) -> bool {
    let connected = with_entry(id, |entry| {
        let known = entry.is_about(channel, id)
            && number(GENERATIONS, id) == Some(entry.record.life | CONNECTED);
        if known {
            entry.record.answers = 0;
        }
        known
    });
    connected == Some(true)
}

/// Puts the answer to a question about an id of a channel at `address`, which has room for `room`
/// bytes. `None`: ferroced must be asked. The error is an errno.
///
/// # Safety
/// `address` is the program's word for where the answer belongs; what lies there is overwritten.
/// `frame_end` is as [`sys::copy_out`] asks.
pub(crate) unsafe fn give(
    channel: u16,
    id: u32,
    question: Question,
    (address, room): (u64, usize),
    frame_end: usize,
) -> Option<Result<(), c_int>> {
    with_entry(id, |entry| {
        if !entry.is_about(channel, id) || generation(id)? != entry.record.generation {
            return None;
        }
        let answer = bytes_of(&entry.record, &entry.answers, question)?;
        // With less room there are rules, which ferroced knows.
        if room < answer.len() {
            return None;
        }
        // SAFETY: as the caller promises.
        match unsafe { sys::copy_out(address, answer, frame_end) } {
            Ok(()) => Some(Ok(())),
            Err(libc::EFAULT) => Some(Err(libc::EFAULT)),
            Err(_) => None,
        }
    })?
}

impl Kept {
    /// Whether this is what is kept of an id of a channel.
    fn is_about(&self, channel: u16, id: u32) -> bool {
        self.channel == u32::from(channel) + 1 && self.record.id == id
    }
}

/// The generation of an id now.
fn generation(id: u32) -> Option<u32> {
    number(0, id)
}

/// The number of an id now, in the part of the page that begins with that one.
fn number(first: usize, id: u32) -> Option<u32> {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() || id as usize >= GENERATIONS {
        return None;
    }
    // SAFETY: the page has two parts of so many numbers and is never unmapped; ferroced writes them
    // atomically.
    Some(unsafe { &*page.add(first + id as usize) }.load(Ordering::Acquire))
}

fn bytes_of<'a>(record: &Record, answers: &'a Answers, question: Question) -> Option<&'a [u8]> {
    let (bit, bytes) = match question {
        Question::Query(RDMA_USER_CM_QUERY_ADDR) => (answer::ADDR, answers.addr.as_bytes()),
        Question::Query(RDMA_USER_CM_QUERY_GID) => (answer::GID, answers.gid.as_bytes()),
        Question::Query(RDMA_USER_CM_QUERY_PATH) => (answer::PATH, answers.path.as_bytes()),
        Question::Query(_) => return None,
        Question::QpAttr(state) => {
            let i = QP_STATES.iter().position(|known| *known == state)?;
            (answer::QP_ATTR << i, answers.qp_attr.get(i)?.as_bytes())
        }
    };
    (record.answers & bit != 0).then_some(bytes)
}

/// Lends the entry of an id, unless somebody else has it.
fn with_entry<R>(id: u32, act: impl FnOnce(&mut Kept) -> R) -> Option<R> {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return None;
    }
    // SAFETY: the table has so many entries and is never unmapped; zeros are an entry.
    let entry = unsafe { &*table.add(id as usize % ENTRIES) };
    let _guard = entry.lock.try_lock()?;
    // SAFETY: what is kept is reached under the lock only.
    Some(act(unsafe { &mut *entry.kept.get() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_cabi::ucma::{ib_uverbs_qp_attr, rdma_ucm_query_addr_resp};
    use ferroce_cabi::ucma_frame::PathAnswer;
    use std::sync::Mutex;

    /// There is one table.
    static ONE: Mutex<()> = Mutex::new(());

    /// A page, and the generation and the life of id 7.
    fn page() -> (c_int, &'static AtomicU32, &'static AtomicU32) {
        let len = 2 * GENERATIONS * size_of::<AtomicU32>();
        // SAFETY: a new file of the shim's own, mapped twice.
        unsafe {
            let fd = libc::memfd_create(c"generations".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(fd, len as i64), 0);
            let (all, at) = (libc::PROT_READ | libc::PROT_WRITE, null_mut());
            let base = libc::mmap(at, len, all, libc::MAP_SHARED, fd, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let base = base.cast::<AtomicU32>();
            (fd, &*base.add(7), &*base.add(GENERATIONS + 7))
        }
    }

    fn record(answers: u32, generation: u32) -> (Record, Answers) {
        let answers_to = Answers {
            addr: rdma_ucm_query_addr_resp {
                port_num: 9,
                ..Default::default()
            },
            gid: rdma_ucm_query_addr_resp::default(),
            // SAFETY: numbers and bytes.
            path: unsafe { std::mem::zeroed::<PathAnswer>() },
            qp_attr: [ib_uverbs_qp_attr::default(); 3],
        };

        let record = Record {
            tell: 0,
            answers,
            id: 7,
            generation,
            life: 4,
        };
        (record, answers_to)
    }

    #[test]
    fn an_answer_is_given_while_it_is_true() {
        let _one = ONE.lock().unwrap();
        let (fd, generation, _) = page();
        adopt(fd);
        let mut place = rdma_ucm_query_addr_resp::default();
        let room = size_of::<rdma_ucm_query_addr_resp>();
        let mut ask = |channel, id, question, room| {
            place.port_num = 0;
            let address = &raw mut place as u64;
            // SAFETY: the answer fits.
            let given = unsafe { give(channel, id, question, (address, room), 0) };
            given.map(|result| result.map(|()| place.port_num))
        };

        let addr = Question::Query(RDMA_USER_CM_QUERY_ADDR);
        assert_eq!(ask(3, 7, addr, room), None);
        let (head, answers) = record(answer::ADDR, 0);
        keep(3, &head, &answers);
        assert_eq!(ask(3, 7, addr, room), Some(Ok(9)));

        // Another channel, another id, another question, less room.
        assert_eq!(ask(4, 7, addr, room), None);
        assert_eq!(ask(3, 8, addr, room), None);
        assert_eq!(ask(3, 7 + ENTRIES as u32, addr, room), None);
        assert_eq!(ask(3, 7, Question::QpAttr(1), room), None);
        assert_eq!(ask(3, 7, addr, room - 1), None);
        moved(3, 4, 7);
        assert_eq!(ask(3, 7, addr, room), None);
        assert_eq!(ask(4, 7, addr, room), Some(Ok(9)));

        // SAFETY: nothing is there to be overwritten.
        let nowhere = unsafe { give(4, 7, addr, (8, room), 0) };
        assert_eq!(nowhere, Some(Err(libc::EFAULT)));

        // The id has changed.
        generation.store(1, Ordering::Release);
        assert_eq!(ask(4, 7, addr, room), None);
        let (head, answers) = record(answer::ADDR, 1);
        keep(4, &head, &answers);
        assert_eq!(ask(4, 7, addr, room), Some(Ok(9)));

        // Another ferroced.
        let (fd, ..) = page();
        adopt(fd);
        assert_eq!(ask(4, 7, addr, room), None);
    }

    #[test]
    fn a_command_is_known_to_succeed_once() {
        let _one = ONE.lock().unwrap();
        let (fd, generation, life) = page();
        adopt(fd);
        assert!(!succeeds(3, 7, answer::CONNECT) && !is_connected(3, 7));
        let (head, answers) = record(answer::CONNECT, 0);
        keep(3, &head, &answers);
        assert!(!succeeds(4, 7, answer::CONNECT) && !succeeds(3, 7, answer::ACCEPT));
        generation.store(1, Ordering::Release);
        assert!(!succeeds(3, 7, answer::CONNECT));
        generation.store(0, Ordering::Release);
        assert!(succeeds(3, 7, answer::CONNECT));

        // It has not been carried out yet, but will be.
        assert!(!succeeds(3, 7, answer::CONNECT));
        assert!(!is_connected(3, 7));
        life.store(4 | CONNECTED, Ordering::Release);
        assert!(is_connected(3, 7) && !is_connected(4, 7));

        // Whatever changes about the id, ending its connection is no error; and once more.
        generation.store(9, Ordering::Release);
        assert!(is_connected(3, 7));
        moved(3, 4, 7);
        assert!(!is_connected(3, 7) && is_connected(4, 7));

        // Another id of that name.
        life.store(6 | CONNECTED, Ordering::Release);
        assert!(!is_connected(4, 7));
    }
}
