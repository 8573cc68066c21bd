//! Receiving a plan.

use std::collections::VecDeque;
use std::fs::File;
use std::iter::Peekable;
use std::os::unix::fs::FileExt;
use std::slice::Iter;
use std::sync::Arc;

use super::plan::Files;
use super::ring::{BUFFERS, CHUNK, Landed, Ring, submit};
use super::{Extent, Moved, Plan};
use crate::errno::Result;
use crate::library::Library;
use crate::memory::Use;
use crate::queue::Target;
use crate::socket::{Admission, Socket};

/// Where the bytes of an operation go.
struct Job<'a> {
    file: Option<(&'a File, u64)>,
    length: usize,
}

/// A receive that has its turn.
struct Receiving<'a> {
    ring: Ring<'a>,
    extents: &'a [Extent],
    files: Files,
    /// Operations under way, oldest first.
    jobs: VecDeque<Job<'a>>,
    moved: Moved,
}

/// Receives what a plan has, whose turn has come.
pub(crate) fn receive(
    library: &'static Library,
    socket: &Arc<Socket>,
    plan: Plan,
) -> (Moved, Result<()>) {
    let Plan { extents, files, .. } = plan;
    let mut receiving = Receiving {
        ring: Ring::new(library, socket),
        extents: &extents,
        files,
        jobs: VecDeque::new(),
        moved: Moved::default(),
    };

    let result = receiving.run();
    if result.is_err() && !receiving.ring.flying.is_empty() {
        // Bytes that belong here would get lost: the sender must know that its file does not
        // arrive.
        let _ = socket.shutdown(true, false, Target::none());
        receiving.keep_what_came();
    }
    receiving.ring.land();
    socket.file_over(Use::Receive);
    (receiving.moved, result)
}

impl<'a> Receiving<'a> {
    fn run(&mut self) -> Result<()> {
        let mut extents = self.extents.iter().peekable();
        let mut at = 0;
        let mut over = false;
        loop {
            if !over {
                self.post(&mut extents, &mut at)?;
            }
            let Some(job) = self.jobs.pop_front() else {
                break;
            };

            let landed = self.ring.wait()?;
            let kept = self.keep(&job, &landed);
            let result = match landed.result {
                // What was posted ahead of the end finds nothing.
                Err(_) if over => Ok(()),
                result => result,
            };

            if let Err(error) = kept.and(result) {
                // What came after it would leave a gap.
                self.jobs.clear();
                return Err(error);
            }

            let (flags, moved) = (landed.xfer.exs_evt_flags, &mut self.moved.flags);
            moved.truncated |= flags & libc::MSG_TRUNC != 0;
            moved.end |= flags & libc::MSG_EOR != 0;
            moved.eof |= flags & crate::abi::EXS_EVF_EOF != 0;
            let short = landed.xfer.exs_evt_length < job.length;
            over |= moved.end || moved.eof || moved.truncated || short;
        }

        // Nothing may have come but the end.
        self.files.begin(self.extents)
    }

    /// Posts as many operations as may be under way. `at`: how far the next extent is posted.
    fn post(&mut self, extents: &mut Peekable<Iter<'a, Extent>>, at: &mut u64) -> Result<()> {
        let ring = &mut self.ring;
        // Of a message nothing is posted ahead: the next buffer would take the next message.
        let ahead = if ring.socket.messages { 1 } else { BUFFERS };
        while self.jobs.len() < ahead {
            let Some(extent) = extents.peek() else { break };
            match extent {
                Extent::Memory(piece) => {
                    extents.next();
                    let transfer =
                        piece.transfer(!ring.socket.messages || extents.peek().is_some());
                    let target = ring.target()?;
                    ring.socket.receive(transfer, Admission::File, target)?;
                    ring.flying.push_back(None);
                    self.jobs.push_back(Job {
                        file: None,
                        length: piece.length,
                    });
                }
                Extent::File {
                    file,
                    offset,
                    length,
                } => {
                    let left = length.map_or(u64::MAX, |length| length - *at);
                    let region = ring.region()?;
                    let Some(buffer) = ring.free.pop() else { break };
                    let length = left.min(CHUNK as u64) as usize;
                    let place = offset + *at;
                    *at += length as u64;
                    let exhausted = length as u64 == left;
                    if exhausted {
                        extents.next();
                        *at = 0;
                    }

                    let last = extents.peek().is_none();
                    let address = ring.address(buffer);
                    let flag = !ring.socket.messages || !last;
                    if let Err(error) =
                        submit(ring, address, length, Some(&region), flag, Use::Receive)
                    {
                        ring.free.push(buffer);
                        return Err(error);
                    }

                    if let Some(flying) = ring.flying.back_mut() {
                        *flying = Some(buffer);
                    }

                    self.jobs.push_back(Job {
                        file: Some((file, place)),
                        length,
                    });
                }
            }
        }

        Ok(())
    }

    /// Counts what an operation has brought, whatever became of it then, and writes it to where it
    /// belongs.
    fn keep(&mut self, job: &Job<'_>, landed: &Landed) -> Result<()> {
        let got = landed.xfer.exs_evt_length;
        if got == 0 {
            return Ok(());
        }

        self.files.begin(self.extents)?;
        if let (Some((file, place)), Some(buffer)) = (job.file, landed.buffer) {
            file.write_all_at(self.ring.buffer(buffer, got), place)?;
        }

        self.moved.bytes += got as u64;
        Ok(())
    }

    /// After a failure: what had come before it, up to the first gap.
    fn keep_what_came(&mut self) {
        while let Some(job) = self.jobs.pop_front() {
            let Ok(landed) = self.ring.wait() else { break };
            let short = landed.xfer.exs_evt_length < job.length;
            if self.keep(&job, &landed).is_err() || short {
                break;
            }
        }
    }
}
