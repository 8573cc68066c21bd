//! Long MADs in segments: a receiver takes any sequence of them without panic, keeps no more than
//! it may, and a message that a sender cuts up comes out whole whatever comes in between.

use arbitrary::{Arbitrary, Unstructured};
use ferroce_fabric::rmpp::{self, Receiver, Sender};
use ferroce_wire::mad::{LEN, Mad};

#[derive(Arbitrary, Debug)]
enum Step {
    Segment {
        kind: u8,
        flags: u8,
        number: u8,
        length: u16,
    },
    Bytes(Vec<u8>),
    Next,
    Again,
}

fn mad(bytes: &[u8]) -> Mad {
    let mut mad = [0; LEN];
    let n = bytes.len().min(LEN);
    mad[..n].copy_from_slice(&bytes[..n]);
    mad
}

/// A MAD of the subnet administrator's class with an RMPP header.
fn segment(kind: u8, flags: u8, number: u8, length: u16) -> Mad {
    let mut mad = mad(&[1, 3, 2, 0x92]);
    mad[24..28].copy_from_slice(&[1, kind % 5, flags & 7, 0]);
    mad[28..32].copy_from_slice(&u32::from(number).to_be_bytes());
    mad[32..36].copy_from_slice(&u32::from(length).to_be_bytes());
    mad
}

/// A sender and a receiver under any sequence of these. Returns whether a segment was taken.
pub fn run(input: &[u8]) -> bool {
    let mut input = Unstructured::new(input);
    let length = usize::from(input.arbitrary::<u16>().unwrap_or(0));
    let mut message = vec![0x5a; length];
    let head = segment(1, 1, 1, 0);
    let n = message.len().min(head.len());
    message[..n].copy_from_slice(&head[..n]);
    let mut sender = Sender::new(message);
    let mut receiver = Receiver::default();
    let mut taken = false;

    while let Ok(step) = input.arbitrary::<Step>() {
        if input.is_empty() {
            break;
        }

        let came = match step {
            Step::Segment {
                kind,
                flags,
                number,
                length,
            } => segment(kind, flags, number, length),
            Step::Bytes(bytes) => mad(&bytes),
            Step::Next => match sender.as_mut().and_then(Sender::next) {
                Some(mad) => mad,
                None => continue,
            },
            Step::Again => {
                if let Some(sender) = &mut sender {
                    sender.again();
                }
                continue;
            }
        };

        let _ = rmpp::kind(&came);
        if rmpp::is_active(&came) {
            // Whoever gives up takes nothing.
            taken |= !matches!(receiver.take(&came).end, Some(Err(_)));
        }

        if let Some(sender) = &mut sender {
            let _ = sender.answered(&came);
        }
    }

    taken
}
