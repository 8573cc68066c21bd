//! The counters of a multicast group: what was sent to it on this machine through one interface,
//! and what each process that receives there has taken of it.
//!
//! The file is made by whoever comes first, sender or member, and removed by the last. Each holds a
//! lock on it; a member's number, which says where it counts, is a lock on a byte of the file. So
//! what a killed process leaves is nobody's, and another's next.

use std::fs::{File, OpenOptions};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use rustix::fs::{FlockOperation, flock};

use super::{FlowPage, NO_FOLLOW, SLOTS, back, is_at, is_page, name, remove};

/// Cell of the largest number that a member ever had.
const LARGEST: usize = SLOTS;
/// How often a file is looked for that is removed as often.
const TRIES: u32 = 16;

/// The counters of a group on one interface, which are the same for all as long as somebody has
/// this.
#[derive(Debug)]
pub struct GroupFile {
    page: FlowPage,
    path: PathBuf,
    /// Locked for as long as it is open.
    file: File,
}

impl GroupFile {
    /// Of the group with this address on the interface with this index; `None` where there is no
    /// shared memory, or no room in it.
    pub fn open(group: IpAddr, interface: u32) -> Option<GroupFile> {
        let path = name(group, interface).ok()?;
        let user = rustix::process::geteuid().as_raw();
        for _ in 0..TRIES {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(NO_FOLLOW)
                .open(&path)
                .ok()?;
            if file.metadata().ok()?.uid() != user {
                return None;
            }

            // Only one makes it, and nobody counts there meanwhile.
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                && is_at(&file, &path)
                && file.metadata().ok()?.len() == 0
                && back(&file).is_err()
            {
                let _ = std::fs::remove_file(&path);
                return None;
            }
            flock(&file, FlockOperation::LockShared).ok()?;

            // The last one may have removed it before it was ours as well, and somebody who looked
            // may have kept us from making it.
            let metadata = file.metadata().ok()?;
            if !is_at(&file, &path) || metadata.len() == 0 {
                continue;
            }
            if !is_page(&metadata) {
                return None;
            }
            let page = FlowPage {
                is_group: true,
                ..FlowPage::map(&file)?
            };
            return Some(GroupFile { page, path, file });
        }
        None
    }

    /// Counts what is about to be sent.
    pub fn send(&self, amount: u64) {
        self.page.sent(0).fetch_add(amount, Ordering::Relaxed);
    }

    /// How many bytes more may be on their way to each member, `limit` in all; `None`: there is
    /// none.
    pub fn room(&self, limit: u64) -> Option<u64> {
        self.members().map(|member| member.room(limit)).min()
    }

    /// What the member with the least room has taken.
    pub fn taken(&self) -> u64 {
        let last = self.members().min_by_key(|member| member.room(u64::MAX));
        last.map_or(0, |Told { number, .. }| {
            self.page.received(number).load(Ordering::Relaxed)
        })
    }

    /// A process that receives, to which at most `holds` bytes may be on their way; `None` where
    /// there are too many.
    pub fn join(self, holds: u64) -> Option<Member> {
        let number = (1..=u8::MAX).find(|number| self.lock(*number, libc::F_WRLCK))?;
        // What was sent so far is not for it.
        let sent = self.page.sent(number).load(Ordering::Relaxed);
        self.page.settle(number, sent);
        let largest = self.page.cell(LARGEST);
        largest.fetch_max(number.into(), Ordering::Relaxed);
        let there = self.page.cell(number.into());
        there.store(holds.max(1), Ordering::Release);
        Some(Member {
            group: self,
            number,
        })
    }

    /// Forgets members that have died with something left to take.
    pub fn forget_the_dead(&self) {
        for Told { number, .. } in self.members().filter(|member| member.in_flight > 0) {
            if self.lock(number, libc::F_WRLCK) {
                self.page.cell(number.into()).store(0, Ordering::Relaxed);
                self.lock(number, libc::F_UNLCK);
            }
        }
    }

    fn members(&self) -> impl Iterator<Item = Told> + '_ {
        let largest = self.page.cell(LARGEST).load(Ordering::Relaxed);
        let largest = u8::try_from(largest).unwrap_or(u8::MAX);
        (1..=largest).filter_map(|number| {
            let holds = self.page.cell(number.into()).load(Ordering::Acquire);
            (holds != 0).then(|| Told {
                number,
                holds,
                in_flight: self.page.in_flight(number),
            })
        })
    }

    /// Takes (`F_WRLCK`) or leaves (`F_UNLCK`) a number, if nobody else has it.
    fn lock(&self, number: u8, kind: libc::c_int) -> bool {
        // SAFETY: a structure of integers, for which zeros are values.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = number.into();
        lock.l_len = 1;
        // SAFETY: the command reads the structure, which outlives the call.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0 }
    }
}

impl Drop for GroupFile {
    fn drop(&mut self) {
        // Closing it is not enough while the counters are mapped somewhere.
        let _ = flock(&self.file, FlockOperation::Unlock);
        // Unless others have it, who hold a lock as well.
        remove(&self.path, false);
    }
}

/// What is known of a member.
struct Told {
    number: u8,
    /// How many bytes may be on their way to it.
    holds: u64,
    in_flight: u64,
}

impl Told {
    fn room(&self, limit: u64) -> u64 {
        self.holds.min(limit).saturating_sub(self.in_flight)
    }
}

/// A process that receives what is sent to a group, until it is dropped.
#[derive(Debug)]
pub struct Member {
    group: GroupFile,
    number: u8,
}

impl Member {
    /// Where it counts what it takes, by its number.
    pub fn page(&self) -> &FlowPage {
        &self.group.page
    }

    /// Its number, in place of a slot's.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// It takes nothing any more, and nobody waits for it.
    pub fn leave(&self) {
        let there = self.group.page.cell(self.number.into());
        there.store(0, Ordering::Relaxed);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
        self.group.lock(self.number, libc::F_UNLCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACE: u32 = 7;

    fn open(group: [u8; 4]) -> GroupFile {
        GroupFile::open(group.into(), INTERFACE).unwrap()
    }

    #[test]
    fn a_sender_goes_by_the_member_with_the_least_room() {
        let group = [239, 192, 0, 91];
        let sender = open(group);
        sender.send(500);
        assert_eq!(sender.room(1000), None, "nobody receives");

        let [quick, slow] = [1000, 2000].map(|holds| open(group).join(holds).unwrap());
        assert_eq!((quick.number(), slow.number()), (1, 2));
        assert_eq!(sender.room(1500), Some(1000), "that was before them");
        sender.send(300);
        open(group).send(100);
        assert_eq!(sender.room(1500), Some(600), "of all senders");
        assert_eq!(sender.room(700), Some(300));
        slow.page().take(slow.number(), 150);
        quick.page().take(quick.number(), 50);
        assert_eq!((sender.room(1500), sender.taken()), (Some(650), 550));
        quick.page().take(quick.number(), 350);
        slow.page().take(slow.number(), 10);
        sender.send(900);
        assert_eq!((sender.room(1500), sender.taken()), (Some(100), 900));

        drop(quick);
        assert_eq!((sender.room(1500), sender.taken()), (Some(360), 660));
        slow.leave();
        assert_eq!(sender.room(1500), None);
    }

    #[test]
    fn who_was_killed_is_forgotten_and_its_number_is_anothers() {
        let group = [239, 192, 0, 92];
        let sender = open(group);
        let alive = open(group).join(1000).unwrap();
        let mut killed = open(group).join(1000).unwrap();
        // What it had is closed and unmapped, and it says nothing.
        killed.group.file = File::open("/dev/null").unwrap();
        killed.group.page = sender.page.clone();
        std::mem::forget(killed);
        sender.send(100);
        alive.page().take(alive.number(), 100);
        assert_eq!(sender.room(1000), Some(900));
        sender.forget_the_dead();
        assert_eq!(sender.room(1000), Some(1000));
        sender.send(100);
        sender.forget_the_dead();
        assert_eq!(sender.room(1000), Some(900), "the other one is alive");
        assert_eq!(open(group).join(1000).unwrap().number(), 2);
    }

    #[test]
    fn the_last_one_removes_the_file() {
        let group = IpAddr::from([239, 192, 0, 93]);
        let path = name(group, INTERFACE).unwrap();
        let first = GroupFile::open(group, INTERFACE).unwrap();
        let member = GroupFile::open(group, INTERFACE).unwrap().join(1);
        drop(first);
        assert!(path.exists());
        drop(member);
        assert!(!path.exists());
    }
}
