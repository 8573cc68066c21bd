//! Random numbers that strangers must not guess and forked children must not share: keys, numbers
//! of queue pairs, PSNs, seeds. They come from the operating system, one system call each. A
//! generator in the process would be copied by `fork`, and parent and child would go on to draw the
//! same numbers.

use rand::distr::{Distribution, StandardUniform};
use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};

/// A random value.
///
/// Panics where the system has no random numbers (Linux before 3.17 without `/dev/urandom`).
pub fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    OsRng.unwrap_err().random()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a child draws first, told through a pipe.
    fn drawn_by_a_child() -> [u8; 16] {
        let (mut reader, writer) = std::io::pipe().unwrap();

        // SAFETY: the child calls what is async-signal-safe (getrandom, write, _exit) and nothing
        // else.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let drawn: [u8; 16] = random();
            // SAFETY: the array lives, and the child ends here.
            unsafe {
                let fd = std::os::fd::AsRawFd::as_raw_fd(&writer);
                libc::write(fd, drawn.as_ptr().cast(), drawn.len());
                libc::_exit(0);
            }
        }

        drop(writer);
        let mut drawn = [0; 16];
        std::io::Read::read_exact(&mut reader, &mut drawn).unwrap();

        // SAFETY: a child of this process's.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        drawn
    }

    #[test]
    fn forked_children_draw_numbers_of_their_own() {
        let _: u64 = random();
        let mut drawn: Vec<[u8; 16]> = (0..3).map(|_| drawn_by_a_child()).collect();
        drawn.push(random());
        for i in 0..drawn.len() {
            assert!(!drawn[..i].contains(&drawn[i]), "{drawn:x?}");
        }
    }
}
