//! Packets that leave, one by one, and what faults make of each.

use std::io;

use ferroce_control::capture::record::Fate;
use ferroce_control::faults::{Damage, Direction, Lane};
use ferroce_control::{Counter, CounterPage};
use ferroce_wire::{ICRC_LEN, Packet};

use super::faults::{Passing, Verdict};
use super::{CAPTURE, FAULTS, Tapped, Taps, Waiting};
use crate::datapath::path::Path;
use crate::memory::guard;
use crate::port::Outgoing;
use crate::progress::timers;

/// Sends the one packet that `iov` describes, if faults let it go. What is lost on the way has been
/// sent, as far as its sender knows.
#[cold]
pub(crate) fn leave(
    tapped: Tapped<'_>,
    counters: &CounterPage,
    path: &Path,
    iov: &mut [libc::iovec],
) -> io::Result<()> {
    let Tapped { taps, qp, ordinal } = tapped;
    if !taps.has(FAULTS) {
        return hand_over(taps, qp, path, iov);
    }

    let mut bytes = gathered(iov)?;
    let lead = path.exit.lead_len();
    let Ok(packet) = Packet::parse(&bytes[lead..]) else {
        return hand_over(taps, qp, path, iov);
    };

    let lane = Lane {
        ordinal,
        direction: Direction::Out,
    };
    let passing = Passing {
        qp,
        ordinal,
        peer: Some(packet.bth.dest_qp),
        direction: Direction::Out,
        packet: &packet,
        length: bytes.len() - lead,
        refusable: false,
    };
    let verdict = taps.faults.judge(&passing, counters);
    let headers = usize::from(packet.info.header_len);
    let payload = packet.content().len();

    if let Some(fate) = fate(&verdict) {
        taps.fault(qp, false, &packet, fate);
    }

    let held = &taps.faults.held;
    let overtaken = held.overtaken(lane);
    if let Some((damage, random)) = verdict.damaged {
        let place = lead + headers;
        match damage {
            Damage::Payload => {
                flip(&mut bytes[place..place + payload], random);
                seal(path, lead, headers, &mut bytes);
            }
            Damage::Icrc if has_icrc(path, lead, &mut bytes) => {
                let end = bytes.len();
                let first = if payload == 0 { end - ICRC_LEN } else { place };
                flip(&mut bytes[first..end], random);
            }
            // Who would notice is a program of this very device, whose counters are one sum.
            Damage::Icrc => {
                counters.add(Counter::RxPackets, 1);
                counters.add(Counter::RxBytes, bytes.len() as u64);
                counters.add(Counter::RxIcrcErrors, 1);
                if let Ok(packet) = Packet::parse(&bytes[lead..]) {
                    taps.fault(qp, false, &packet, Fate::Lost);
                }
                return Ok(());
            }
        }
    }

    let sent = match (verdict.lost, verdict.delayed, verdict.overtaken) {
        (true, ..) => Ok(()),
        (_, None, false) => {
            let first = send(taps, qp, path, &mut bytes);
            match verdict.twice {
                true => first.and_then(|()| send(taps, qp, path, &mut bytes)),
                false => first,
            }
        }
        (_, delayed, _) => match held.path(path) {
            Some(path) => {
                for _ in 0..=usize::from(verdict.twice) {
                    let packet = Waiting::Leaving {
                        qpn: qp,
                        path: path.clone(),
                        bytes: bytes.clone(),
                    };
                    match delayed {
                        Some(by) => held.delay(lane, by, packet),
                        None => held.overtake(lane, packet),
                    };
                }
                Ok(())
            }
            None => send(taps, qp, path, &mut bytes),
        },
    };

    // They were to be overtaken by this one.
    for waiting in overtaken {
        waiting.leave(taps);
    }
    sent
}

/// What a capture is to say of a packet, which it may not show when it is sent, or not once.
fn fate(verdict: &Verdict) -> Option<Fate> {
    match verdict {
        Verdict { lost: true, .. } => Some(Fate::Lost),
        Verdict {
            delayed: Some(_), ..
        }
        | Verdict {
            overtaken: true, ..
        } => Some(Fate::Held),
        Verdict { twice: true, .. } => Some(Fate::Twice),
        _ => None,
    }
}

/// Sends a datagram of a queue pair.
pub(super) fn send(taps: &Taps, qpn: u32, path: &Path, bytes: &mut [u8]) -> io::Result<()> {
    let mut iov = [libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }];
    hand_over(taps, qpn, path, &mut iov)
}

/// Gives the port one packet, and records it: what faults keep back has not been sent.
fn hand_over(taps: &Taps, qpn: u32, path: &Path, iov: &mut [libc::iovec]) -> io::Result<()> {
    let captured = taps.has(CAPTURE).then(timers::wall_clock);
    path.exit.send(iov, None)?;
    if let Some(time) = captured {
        taps.captures.sent(time, qpn, path, iov, None);
    }
    Ok(())
}

/// The bytes that an iovec describes.
fn gathered(iov: &[libc::iovec]) -> io::Result<Vec<u8>> {
    let len = iov.iter().map(|piece| piece.iov_len).sum();
    let mut bytes = vec![0; len];
    let mut at = 0;
    for piece in iov {
        let to = &mut bytes[at..at + piece.iov_len];
        // SAFETY: the piece is in the arena of the thread that sends, or was resolved under a key
        // whose region cannot go while the packet is sent; the other side is ours.
        unsafe { guard::copy(to.as_mut_ptr(), piece.iov_base.cast(), piece.iov_len) }
            .map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
        at += piece.iov_len;
    }
    Ok(bytes)
}

/// Whether packets of a path have an ICRC: those that go through memory have none. What stands
/// before the BTH is written again.
fn has_icrc(path: &Path, lead: usize, bytes: &mut [u8]) -> bool {
    let transport = bytes.len() - lead;
    path.exit.begin(transport, 0, bytes).is_some()
}

/// Makes the ICRC that of what is there now.
fn seal(path: &Path, lead: usize, headers: usize, bytes: &mut [u8]) {
    let transport = bytes.len() - lead;
    let Some(mut icrc) = path.exit.begin(transport, 0, bytes) else {
        return;
    };
    let (before, end) = bytes.split_at_mut(lead + transport - ICRC_LEN);
    icrc.header(&before[lead..lead + headers]);
    icrc.payload(&before[lead + headers..]);
    end.copy_from_slice(&icrc.finish());
}

/// Turns over a bit.
pub(crate) fn flip(bytes: &mut [u8], random: u64) {
    let bits = bytes.len() as u64 * 8;
    if let Some(bit) = random.checked_rem(bits) {
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
