//! A program's netlink socket without the kernel's, for `tests/fuzz`: whatever it sends, every
//! answer is a message that it can read.

use ferroce_control::seqpacket::{self, Wait};

use super::example::device;
use super::message::{HEADER, ROOM, end};
use super::server::{Netlink, turn};
use crate::fuzzing::inputs::{connection, steps};
use crate::sessions::Session;

const PID: u32 = 77;

/// One socket under any sequence of datagrams. Returns whether something was answered by more than
/// a refusal.
pub fn netlink(input: &[u8]) -> bool {
    let device = device();
    let (ours, theirs) = connection();
    let mut session = Session::new(ours, Netlink::new(PID, 0));
    let mut buffer = seqpacket::buffer();
    let mut answered = false;

    for (_, _, datagram) in steps(input).take(16) {
        let sent = seqpacket::send(&theirs, datagram, &[], Wait::Not);
        if datagram.is_empty() || sent.is_err() {
            continue;
        }

        if turn(&mut session, &mut buffer, &device).is_err() {
            // Another version of the shim: the socket is at its end.
            return answered;
        }

        // As long as there is no room nothing else is read, so this ends.
        loop {
            while let Ok(answer) = seqpacket::receive(&theirs, &mut buffer, Wait::Not) {
                answered |= check(&buffer[..answer.len], datagram.len());
            }
            if !session.state.is_full() {
                break;
            }
            turn(&mut session, &mut buffer, &device).expect("there is room");
        }
    }

    answered
}

/// One answer to a datagram of that many bytes. Returns whether it says more than that something is
/// refused.
fn check(answer: &[u8], asked: usize) -> bool {
    assert!(answer.len() >= HEADER && answer.len() <= ROOM.max(2 * HEADER + asked + 256));
    assert_eq!(answer[..4], (answer.len() as u32).to_ne_bytes());
    assert_eq!(answer[12..16], PID.to_ne_bytes());
    match u16::from_ne_bytes([answer[4], answer[5]]) {
        end::ERROR => false,
        end::DONE => answer[HEADER..HEADER + 4] == [0; 4],
        _ => true,
    }
}
