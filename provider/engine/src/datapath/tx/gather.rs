//! Putting a packet together: its headers, its payload or where that is, its ICRC.

use ferroce_transport::{Access, Gather, MemoryError, TxPacket};
use ferroce_wire::icrc::Icrc;
use ferroce_wire::{Bth, ICRC_LEN, packet};

use super::{Run, Source};
use crate::memory::guard;
use crate::memory::keys::{Peer, Piece};
use crate::port::Outgoing;
use crate::tuning::COPY_LIMIT;

impl Run<'_> {
    /// Covers the open piece of the arena with an iovec.
    pub(super) fn seal(&mut self) {
        if self.used > self.open {
            let base = self.scratch.arena[self.open..].as_mut_ptr();
            self.scratch.iov.push(libc::iovec {
                iov_base: base.cast(),
                iov_len: self.used - self.open,
            });
            self.open = self.used;
        }
    }

    /// Adds a piece of registered memory, copied or by reference, to the packet of this ICRC.
    fn piece(&mut self, piece: Piece, copy: bool, icrc: &mut Seal) -> Result<(), MemoryError> {
        let Piece {
            addr,
            len,
            fleeting,
        } = piece;

        if copy || fleeting || len <= COPY_LIMIT {
            let to = &mut self.scratch.arena[self.used..self.used + len];
            // SAFETY: the range was resolved under a key of a registered region, and deregistration
            // waits for the key table's lock that our caller holds. The arena is ours.
            unsafe { guard::copy(to.as_mut_ptr(), addr as *const u8, len) }?;
            self.used += len;
            return Ok(());
        }

        // SAFETY: as above. The program may have unmapped the range since it was registered: that
        // is an error here, and only doing so in the very microseconds of the send is a fault.
        // Another thread may change the bytes while we read: then the packet's ICRC is wrong, the
        // peer drops it, and the retransmission is taken from a copy.
        let bytes = unsafe {
            guard::probe(addr as *const u8, len)?;
            std::slice::from_raw_parts(addr as *const u8, len)
        };
        icrc.cover(&self.scratch.arena[..self.used]);
        icrc.payload(bytes);

        self.seal();
        self.scratch.iov.push(libc::iovec {
            iov_base: addr as *mut _,
            iov_len: len,
        });

        Ok(())
    }

    /// Whether the port takes another packet of that size in the same run.
    pub(super) fn has_room(&self, total: usize) -> bool {
        self.way.exit().is_some_and(|exit| {
            let capacity = exit.capacity();
            self.segments < capacity.segments && self.bytes + total <= capacity.bytes
        })
    }

    /// Adds a packet at the end. A port numbers the packets of one run from 0, and gives a single
    /// one 0.
    pub(super) fn append(
        &mut self,
        packet: &TxPacket<'_>,
        len: usize,
        total: usize,
        number: u16,
    ) -> Result<(), MemoryError> {
        let bth = Bth {
            pkey: self.source.p_key,
            ..packet.bth
        };
        let Some(exit) = self.way.exit() else {
            return Err(MemoryError::Key);
        };

        let lead = exit.lead_len();
        let icrc = exit.begin(total - lead, number, &mut self.scratch.arena[self.used..]);
        let head = self.used + lead;
        self.used = head + packet::emit(&bth, &packet.ext, &mut self.scratch.arena[head..]);
        let mut icrc = Seal::new(icrc, &self.scratch.arena, head);
        let before = packet::emit_count(&bth, packet.filler, &mut self.scratch.arena[self.used..]);
        self.used += before;
        let Source { keys, peer, .. } = self.source;
        match packet.payload {
            Gather::None => {}
            Gather::Bytes(bytes) => {
                self.scratch.arena[self.used..self.used + len].copy_from_slice(bytes);
                self.used += len;
            }
            Gather::Sges { sges, offset, len } => {
                keys.pieces(peer.pd, sges, offset, len, Access::empty(), |piece| {
                    self.piece(piece, packet.again, &mut icrc)
                })?;
            }
            Gather::Remote { rkey, va, len } => {
                let (peer, access) = (self.remote_peer(packet.srq)?, Access::REMOTE_READ);
                keys.remote(peer, rkey, va, len.into(), access, |piece| {
                    self.piece(piece, packet.again, &mut icrc)
                })?;
            }
        }

        let behind = packet::around_len(&bth, packet.filler) - before;
        if behind > 0 {
            self.scratch.arena[self.used..self.used + behind].fill(0);
            self.used += behind;
        }

        let end = self.used + ICRC_LEN;
        let last = icrc.finish(&self.scratch.arena[..self.used]);
        self.scratch.arena[self.used..end].copy_from_slice(&last);
        self.used = end;
        Ok(())
    }

    /// Who reads at a remote key: for an XRC target, in the protection domain of a shared receive
    /// queue.
    fn remote_peer(&self, srq: u32) -> Result<Peer, MemoryError> {
        let peer = self.source.peer;
        match (srq, self.source.domain) {
            (0, _) => Ok(peer),
            (_, Some(domain)) => {
                let srq = domain.srq(srq).ok_or(MemoryError::Key)?;
                let pd = srq.pd_handle();
                Ok(Peer { pd, ..peer })
            }
            _ => Err(MemoryError::Key),
        }
    }
}

/// The ICRC of a packet being made, if its port wants one; else there are zeros in its place. What
/// lies in the arena is covered in as long pieces as there are.
struct Seal {
    icrc: Option<Icrc>,
    /// Up to where the arena is covered.
    covered: usize,
}

impl Seal {
    /// Of a packet whose headers are in the arena from `head` on.
    fn new(mut icrc: Option<Icrc>, arena: &[u8], head: usize) -> Seal {
        if let Some(icrc) = &mut icrc {
            icrc.mask(&arena[head..]);
        }
        Seal {
            icrc,
            covered: head,
        }
    }

    /// Covers what else the arena holds.
    fn cover(&mut self, arena: &[u8]) {
        if let Some(icrc) = &mut self.icrc {
            icrc.payload(&arena[self.covered..]);
            self.covered = arena.len();
        }
    }

    /// Covers bytes that are elsewhere, and come next.
    fn payload(&mut self, bytes: &[u8]) {
        if let Some(icrc) = &mut self.icrc {
            icrc.payload(bytes);
        }
    }

    fn finish(mut self, arena: &[u8]) -> [u8; ICRC_LEN] {
        self.cover(arena);
        self.icrc.map_or([0; ICRC_LEN], Icrc::finish)
    }
}
