//! Short turns of the scheduler, for threads whose work is short and whose peers wait for it.
//!
//! Since Linux 6.12 a thread may say how long its turns of a processor are (`sched_runtime` of
//! `SCHED_OTHER`); no privilege is needed. Its share stays the same, and a wake-up preempts whoever
//! has long ones, such as a program that spins on memory. Older kernels refuse or ignore it.

use std::cell::Cell;

use crate::tuning::SCHEDULER_SLICE;

/// `struct sched_attr`, first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Nanoseconds; what the kernel chose where the thread has not.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// What a thread of the application has been given.
#[derive(Clone, Copy, Debug)]
enum Given {
    Nothing,
    /// It has no use for short turns, or has them by itself.
    Refused,
    /// Short turns, instead of turns of so many nanoseconds.
    Instead(u64),
}

thread_local! {
    static GIVEN: Cell<Given> = const { Cell::new(Given::Nothing) };
}

/// Gives the calling thread short turns; returns what its turns were if they were longer.
fn shorten() -> Option<u64> {
    let had = Attributes::of_this_thread()?;
    let slice = SCHEDULER_SLICE.as_nanos() as u64;
    // A kernel that knows nothing of it has 0.
    if had.policy != libc::SCHED_OTHER as u32 || had.runtime <= slice {
        return None;
    }
    let runtime = slice;
    Attributes { runtime, ..had }.set().then_some(had.runtime)
}

/// Gives the calling thread, which is ours, short turns for good.
pub(super) fn shorten_for_good() {
    let _ = shorten();
}

/// Gives the calling thread, which is the application's, short turns until [`restore`].
pub(super) fn shorten_for_now() {
    // A thread that ends may have lost its storage.
    let _ = GIVEN.try_with(|given| {
        if matches!(given.get(), Given::Nothing) {
            given.set(shorten().map_or(Given::Refused, Given::Instead));
        }
    });
}

/// Gives the calling thread back what it had before [`shorten_for_now`].
pub(super) fn restore() {
    let _ = GIVEN.try_with(|given| {
        if let Given::Instead(runtime) = given.get() {
            // As somebody may have changed the rest meanwhile, its nice value above all.
            if let Some(now) = Attributes::of_this_thread()
                && now.policy == libc::SCHED_OTHER as u32
            {
                Attributes { runtime, ..now }.set();
            }
            given.set(Given::Nothing);
        }
    });
}

impl Attributes {
    const SIZE: u32 = size_of::<Attributes>() as u32;

    fn of_this_thread() -> Option<Attributes> {
        let mut attributes = Attributes::default();
        // SAFETY: the kernel writes `SIZE` bytes at most; 0 is the calling thread.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                0,
                &raw mut attributes,
                Attributes::SIZE,
                0,
            )
        };
        (result == 0).then_some(attributes)
    }

    fn set(self) -> bool {
        let attributes = Attributes {
            size: Attributes::SIZE,
            ..self
        };
        // SAFETY: `attributes` outlives the call; 0 is the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns() -> u64 {
        Attributes::of_this_thread().map_or(0, |attributes| attributes.runtime)
    }

    #[test]
    fn who_had_long_turns_gets_them_back() {
        let check = || {
            let slice = SCHEDULER_SLICE.as_nanos() as u64;
            let before = turns();
            for _ in 0..3 {
                shorten_for_now();
                shorten_for_now();
                assert_eq!(turns(), before.min(slice));
                restore();
                restore();
                assert_eq!(turns(), before);
            }
        };
        // The thread of a test may be anybody's.
        std::thread::spawn(check).join().unwrap();
    }

    #[test]
    fn a_policy_of_its_own_is_left_alone() {
        let check = || {
            let batch = Attributes {
                policy: libc::SCHED_BATCH as u32,
                nice: Attributes::of_this_thread().map_or(0, |now| now.nice),
                ..Attributes::default()
            };
            assert!(batch.set());
            let before = turns();
            shorten_for_now();
            assert_eq!(turns(), before);
            let now = Attributes::of_this_thread().unwrap();
            assert_eq!(now.policy, libc::SCHED_BATCH as u32);
        };
        std::thread::spawn(check).join().unwrap();
    }
}
