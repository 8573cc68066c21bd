//! Receiving a plan.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::ring::{BUFFERS, CHUNK, Ring, submit};
use super::{Extent, Moved};
use crate::errno::Result;
use crate::library::Library;
use crate::memory::Use;
use crate::queue::Target;
use crate::socket::{Admission, Socket};

/// Where the bytes of a receive go.
struct Job<'a> {
    file: Option<(&'a File, u64)>,
    length: usize,
}

/// Receives what a plan has, whose turn has come.
pub(crate) fn receive(
    library: &'static Library,
    socket: &Arc<Socket>,
    extents: &[Extent],
) -> (Moved, Result<()>) {
    let mut moved = Moved::default();
    let mut ring = Ring::new(library, socket);
    let result = receive_extents(&mut ring, &mut moved, extents);
    if result.is_err() && !ring.flying.is_empty() {
        // Bytes that belong here would get lost: the sender must know that its file does not
        // arrive.
        let _ = socket.shutdown(true, false, Target::none());
    }
    ring.land();
    socket.file_over(Use::Receive);
    (moved, result)
}

fn receive_extents(ring: &mut Ring<'_>, moved: &mut Moved, extents: &[Extent]) -> Result<()> {
    // Of a message nothing is posted ahead: the next buffer would take the next message.
    let ahead = if ring.socket.messages { 1 } else { BUFFERS };
    let mut jobs: VecDeque<Job<'_>> = VecDeque::new();
    let mut over = false;
    let mut extents = extents.iter().peekable();
    let mut at = 0;
    loop {
        while !over && jobs.len() < ahead {
            let Some(extent) = extents.peek() else { break };
            match extent {
                Extent::Memory(piece) => {
                    extents.next();
                    let transfer =
                        piece.transfer(!ring.socket.messages || extents.peek().is_some());
                    let target = ring.target()?;
                    ring.socket.receive(transfer, Admission::File, target)?;
                    ring.flying.push_back(None);
                    jobs.push_back(Job {
                        file: None,
                        length: piece.length,
                    });
                }
                Extent::File {
                    file,
                    offset,
                    length,
                } => {
                    let left = length.map_or(u64::MAX, |length| length - at);
                    let region = ring.region()?;
                    let Some(buffer) = ring.free.pop() else { break };
                    let length = left.min(CHUNK as u64) as usize;
                    let place = offset + at;
                    at += length as u64;
                    let exhausted = length as u64 == left;
                    if exhausted {
                        extents.next();
                        at = 0;
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

                    jobs.push_back(Job {
                        file: Some((file, place)),
                        length,
                    });
                }
            }
        }

        let Some(job) = jobs.pop_front() else {
            return Ok(());
        };

        let (buffer, xfer) = match ring.wait() {
            // What was posted ahead of the end finds nothing.
            Err(_) if over => continue,
            other => other?,
        };
        let got = xfer.exs_evt_length;
        if let (Some((file, place)), Some(buffer)) = (job.file, buffer) {
            file.write_all_at(ring.buffer(buffer, got), place)?;
        }

        moved.bytes += got as u64;
        let flags = xfer.exs_evt_flags;
        moved.flags.truncated |= flags & libc::MSG_TRUNC != 0;
        moved.flags.end |= flags & libc::MSG_EOR != 0;
        moved.flags.eof |= flags & crate::abi::EXS_EVF_EOF != 0;
        over |= moved.flags.end || moved.flags.eof || moved.flags.truncated || got < job.length;
    }
}
