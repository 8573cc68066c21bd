//! What it takes until bytes are in another's memory: two copies by two threads, through a ring of
//! pieces, as processes of one device do it, or one by the kernel. Without a transport.

use std::array;
use std::hint::spin_loop;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

/// Bytes of a piece: a run.
const PIECE: usize = 64 << 10;
const PAGE: usize = 4096;
/// Pieces that are on their way at most: about the window of a ring.
const PIECES: usize = 6;

/// Who copies.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum By {
    /// Two threads, one after the other, through a ring
    Ring,
    /// The kernel, from one process to another (`process_vm_writev`)
    Kernel,
}

/// Copies from `memory` bytes to as many, again and again, and prints bytes per second.
pub(crate) fn run(by: By, memory: usize, seconds: f64) -> Result<()> {
    if memory == 0 || !memory.is_multiple_of(PIECE) {
        bail!("{memory} bytes of memory are no multiple of {PIECE}");
    }
    let time = Duration::try_from_secs_f64(seconds)?;
    let copied = match by {
        By::Ring => through_ring(memory, time),
        By::Kernel => by_kernel(memory, time)?,
    };
    println!("{copied}");
    Ok(())
}

fn through_ring(memory: usize, time: Duration) -> f64 {
    // A lock that nobody else wants is nothing beside a copy.
    let ring: [Mutex<Vec<u8>>; PIECES] = array::from_fn(|_| Mutex::new(vec![1; PIECE]));
    let (filled, emptied) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    let place = |piece: usize| piece * PIECE % memory;

    thread::scope(|scope| {
        scope.spawn(|| {
            let mut target = vec![1; memory];
            for piece in 0.. {
                while filled.load(Acquire) == piece {
                    if over.load(Relaxed) {
                        return;
                    }
                    spin_loop();
                }
                let full = ring[piece % PIECES].lock().unwrap();
                target[place(piece)..][..PIECE].copy_from_slice(&full);
                drop(full);
                emptied.store(piece + 1, Release);
            }
        });

        let source = vec![1; memory];
        let began = Instant::now();
        let mut piece = 0;
        while began.elapsed() < time {
            while piece - emptied.load(Acquire) == PIECES {
                spin_loop();
            }
            let mut empty = ring[piece % PIECES].lock().unwrap();
            empty.copy_from_slice(&source[place(piece)..][..PIECE]);
            drop(empty);
            piece += 1;
            filled.store(piece, Release);
        }
        while emptied.load(Acquire) != piece {
            spin_loop();
        }
        let took = began.elapsed();
        over.store(true, Relaxed);
        (piece * PIECE) as f64 / took.as_secs_f64()
    })
}

fn by_kernel(memory: usize, time: Duration) -> Result<f64> {
    // At page boundaries, as perftest's are: a copy to a place that is a little higher in its page
    // than the source is in its takes several times as long on some processors.
    let both = [vec![1u8; memory + PAGE], vec![1u8; memory + PAGE]];
    let [source, target] = both.each_ref().map(|bytes| {
        let start = bytes.as_ptr().align_offset(PAGE);
        &bytes[start..][..memory]
    });

    // SAFETY: this program has one thread, and the child makes system calls only.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error().into()),
        // SAFETY: as above.
        0 => unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        },
        child => child,
    };

    let copied = copy_to(child, source, target, time);
    // SAFETY: takes numbers and a null pointer; the child is ours.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    Ok(copied?)
}

/// Copies to where `target` is in a child, which has it since it was forked.
fn copy_to(child: libc::pid_t, source: &[u8], target: &[u8], time: Duration) -> io::Result<f64> {
    let iovec = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let (from, to) = (iovec(source), iovec(target));
    let began = Instant::now();
    let mut copied = 0;
    while began.elapsed() < time {
        // SAFETY: reads what `source` is; what is written is in the child alone.
        match unsafe { libc::process_vm_writev(child, &raw const from, 1, &raw const to, 1, 0) } {
            -1 => return Err(io::Error::last_os_error()),
            n => copied += n as usize,
        }
    }
    Ok(copied as f64 / began.elapsed().as_secs_f64())
}
