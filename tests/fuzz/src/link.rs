//! What comes over an InfiniBand cable: frames of its training and whole packets. Whatever it is,
//! the link is up only with a peer that was heard, and a packet that is taken is intact.

use std::time::{Duration, Instant};

use ferroce_fabric::link::{self, Change, Training};
use ferroce_fabric::sma::{LinkCommand, Offer};
use ferroce_wire::link::LinkPacket;

const OFFER: Offer = Offer {
    widths: 3,
    speeds: 7,
    speeds_ext: 3,
};

/// A link under any sequence of datagrams, commands and pauses: each is a byte that says what, one
/// of length, and bytes. Returns whether the link was up or a packet was taken.
pub fn run(input: &[u8]) -> bool {
    // Only differences of time matter.
    let start = Instant::now();
    let mut now = start;
    let mut training = Training::new(now);
    let mut up = false;
    let mut rest = input;
    let mut came = false;

    while let [what, length, behind @ ..] = rest {
        let (bytes, behind) = behind.split_at(behind.len().min((*length).into()));
        rest = behind;
        let change = match what % 4 {
            0 => datagram(&mut training, now, bytes, &mut came),
            1 => {
                let command = match length % 3 {
                    0 => LinkCommand::Poll,
                    1 => LinkCommand::Sleep,
                    _ => LinkCommand::Disable,
                };
                training.command(now, command);
                up = false;
                None
            }
            2 => {
                now += Duration::from_millis(u64::from(*length) * 8);
                let (frame, change) = training.tick(now, OFFER);
                assert!(frame.is_none_or(|frame| link::is_frame(&frame)));
                change
            }
            // Its own frame comes back, as on a cable whose ends are joined.
            _ => {
                let (frame, change) = training.tick(now, OFFER);
                change.or_else(|| frame.and_then(|frame| training.receive(now, &frame)))
            }
        };

        match change {
            Some(Change::Up(_)) => {
                assert!(!up, "up twice");
                up = true;
                came = true;
            }
            Some(Change::Down) => {
                assert!(up, "down without having been up");
                up = false;
                training.command(now, LinkCommand::Poll);
            }
            None => {}
        }
    }

    came
}

/// `came`: a whole packet was taken.
fn datagram(
    training: &mut Training,
    now: Instant,
    bytes: &[u8],
    came: &mut bool,
) -> Option<Change> {
    if link::is_frame(bytes) {
        return training.receive(now, bytes);
    }
    if let Some(packet) = LinkPacket::parse(bytes)
        && packet.is_intact()
    {
        training.alive(now);
        let _ = link::read(&packet);
        *came = true;
    }
    None
}
