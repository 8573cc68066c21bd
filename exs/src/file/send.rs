//! Sending a plan.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::ring::{CHUNK, Ring, submit, wait_one};
use super::{Extent, Moved, Plan};
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::memory::Use;
use crate::queue::Target;
use crate::socket::{Admission, Socket};

/// Sends what a plan has, whose turn has come, and shuts down for writing then if it says so.
pub(crate) fn send(
    library: &'static Library,
    socket: &Arc<Socket>,
    plan: &Plan,
) -> (Moved, Result<()>) {
    let mut moved = Moved::default();
    let mut ring = Ring::new(library, socket);
    let queued = send_extents(&mut ring, &mut moved, &plan.extents);
    let begun = moved.bytes > 0 || !ring.flying.is_empty();
    if queued.is_err() && socket.messages && begun {
        // The message has no end yet, and the next one must not be taken for the rest of it.
        if submit(&mut ring, 1, 0, None, true, Use::Send).is_err() {
            if let Some(conn) = socket.lock().conn() {
                conn.sever();
            }
            socket.settle(library);
        }
    }

    socket.file_over(Use::Send);
    let mut result = queued;
    while !ring.flying.is_empty() {
        result = result.and(wait(&mut ring, &mut moved));
    }

    if plan.shut && result.is_ok() {
        let shut = Target::new(Some(Arc::clone(&ring.queue)), 0, true)
            .and_then(|target| socket.shutdown(false, true, target));
        result = shut.and_then(|()| match wait_one(library, &ring.queue)?.exs_evt_errno {
            0 => Ok(()),
            code => Err(Errno(code)),
        });
    }

    (moved, result)
}

/// Waits for the oldest part, and counts what went out of it.
fn wait(ring: &mut Ring<'_>, moved: &mut Moved) -> Result<()> {
    let landed = ring.wait()?;
    moved.bytes += landed.xfer.exs_evt_length as u64;
    landed.result
}

fn send_extents(ring: &mut Ring<'_>, moved: &mut Moved, extents: &[Extent]) -> Result<()> {
    let mut left: u64 = extents.iter().map(Extent::length).sum();
    if left == 0 && ring.socket.messages {
        return submit(ring, 1, 0, None, true, Use::Send);
    }

    for extent in extents {
        match extent {
            Extent::Memory(piece) => {
                left -= piece.length as u64;
                let transfer = piece.transfer(left == 0 && ring.socket.messages);
                let target = ring.target()?;
                ring.socket.send(transfer, Admission::File, target)?;
                ring.flying.push_back(None);
            }
            Extent::File {
                file,
                offset,
                length,
            } => {
                let region = ring.region()?;
                let end = offset + length.unwrap_or(0);
                let mut at = *offset;
                while at < end {
                    while ring.free.is_empty() {
                        wait(ring, moved)?;
                    }

                    let buffer = ring.free.pop().ok_or(Errno(libc::EIO))?;
                    let length = (end - at).min(CHUNK as u64) as usize;
                    if let Err(error) = file.read_exact_at(ring.buffer(buffer, length), at) {
                        ring.free.push(buffer);
                        // Somebody has cut the file short.
                        return Err(Errno::from(error));
                    }

                    at += length as u64;
                    left -= length as u64;
                    let last = left == 0 && ring.socket.messages;
                    let place = ring.address(buffer);
                    let sent = submit(ring, place, length, Some(&region), last, Use::Send);
                    if sent.is_err() {
                        ring.free.push(buffer);
                        return sent;
                    }

                    if let Some(flying) = ring.flying.back_mut() {
                        *flying = Some(buffer);
                    }
                }
            }
        }
    }

    Ok(())
}
