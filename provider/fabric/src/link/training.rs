//! How the two ends of a cable find each other, and notice that the other has gone. No I/O; time is
//! passed in.
//!
//! Each end sends a frame now and then with a random number of its own and the number that it last
//! heard. Who hears his own number is heard, and the link is up. A number changes with every
//! training, so an end that begins anew is noticed at once; one that dies without a word, when
//! nothing comes any more. What a link is good for is nothing to this module.

use std::time::{Duration, Instant};

use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};

use crate::sma::{LinkCommand, Offer};

/// How often an end that looks for the other sends.
const POLL: Duration = Duration::from_millis(100);
/// How often an end with a link sends.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// After so long without a frame the link is gone. Long enough for a machine with much else to do.
const LOSS: Duration = Duration::from_millis(2500);

/// Bytes of a frame.
pub const FRAME: usize = 16;
/// The first byte of a frame: a link version that no InfiniBand packet has.
const MARK: u8 = 0x0f;
const VERSION: u8 = 1;
const KIND_TRAIN: u8 = 1;
const KIND_DOWN: u8 = 2;

/// A frame as it is sent.
pub type Frame = [u8; FRAME];

/// What has become of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Both ends hear each other; the other offers this.
    Up(Offer),
    /// The other has gone, or begins anew.
    Down,
}

/// Whether a datagram of a cable is a frame, and no packet.
pub fn is_frame(bytes: &[u8]) -> bool {
    bytes.first() == Some(&MARK)
}

/// One end of a cable.
#[derive(Debug)]
pub struct Training {
    mode: LinkCommand,
    number: u32,
    /// What was heard last: the other's number and offer.
    peer: Option<(u32, Offer)>,
    up: bool,
    heard: Instant,
    send_at: Instant,
    /// The other is to be told that the link is gone for which this was our number.
    farewell: Option<u32>,
}

impl Training {
    /// An end that looks for the other.
    pub fn new(now: Instant) -> Self {
        Self {
            mode: LinkCommand::Poll,
            number: number(),
            peer: None,
            up: false,
            heard: now,
            send_at: now,
            farewell: None,
        }
    }

    /// Lets go of the link and does as is commanded.
    pub fn command(&mut self, now: Instant, command: LinkCommand) {
        if self.up {
            self.farewell = Some(self.number);
        }
        self.mode = command;
        self.number = number();
        self.peer = None;
        self.up = false;
        self.send_at = now;
    }

    /// Whether there is a link.
    #[cfg(test)]
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// A frame has come.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) -> Option<Change> {
        let frame: &Frame = frame.try_into().ok()?;
        if frame[2] != VERSION || self.mode == LinkCommand::Disable {
            return None;
        }

        let word = |at: usize| {
            u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
        };
        let (theirs, echo) = (word(8), word(12));
        let known = self.peer.is_some_and(|(number, _)| number == theirs);
        match frame[3] {
            KIND_DOWN if self.up && known => return Some(Change::Down),
            KIND_TRAIN => {}
            _ => return None,
        }

        if self.up && !known {
            return Some(Change::Down);
        }

        let offer = Offer {
            widths: frame[4],
            speeds: frame[5],
            speeds_ext: frame[6],
        };

        self.heard = now;
        self.peer = Some((theirs, offer));
        if self.up {
            return None;
        }

        // The other must hear that it is heard.
        self.send_at = now;
        if echo != self.number {
            return None;
        }

        self.up = true;
        Some(Change::Up(offer))
    }

    /// A packet has come over the link: a sign of life as good as a frame, which a flood may have
    /// crowded out.
    pub fn alive(&mut self, now: Instant) {
        if self.up {
            self.heard = now;
        }
    }

    /// The ends have nothing in common: on as if nothing had been heard.
    pub fn refused(&mut self, now: Instant) {
        self.up = false;
        self.send_at = now + POLL;
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn next(&self) -> Option<Instant> {
        let loss = self.up.then(|| self.heard + LOSS);
        let send = (self.farewell.is_some() || self.sends()).then_some(self.send_at);
        [loss, send].into_iter().flatten().min()
    }

    /// Does what is due: returns a frame to send, and what has become of the link.
    pub fn tick(&mut self, now: Instant, offer: Offer) -> (Option<Frame>, Option<Change>) {
        if self.up && self.heard + LOSS <= now {
            return (None, Some(Change::Down));
        }
        if let Some(number) = self.farewell.take() {
            return (Some(self.frame(KIND_DOWN, number, offer)), None);
        }
        if !self.sends() || self.send_at > now {
            return (None, None);
        }
        self.send_at = now + if self.up { HEARTBEAT } else { POLL };
        (Some(self.frame(KIND_TRAIN, self.number, offer)), None)
    }

    /// What to say when the port goes for good.
    pub fn last_word(&self, offer: Offer) -> Option<Frame> {
        self.up.then(|| self.frame(KIND_DOWN, self.number, offer))
    }

    fn sends(&self) -> bool {
        match self.mode {
            LinkCommand::Poll => true,
            LinkCommand::Sleep => self.peer.is_some(),
            LinkCommand::Disable => false,
        }
    }

    fn frame(&self, kind: u8, number: u32, offer: Offer) -> Frame {
        let mut frame = [0; FRAME];
        frame[0] = MARK;
        frame[2..7].copy_from_slice(&[VERSION, kind, offer.widths, offer.speeds, offer.speeds_ext]);
        frame[8..12].copy_from_slice(&number.to_be_bytes());
        let heard = self.peer.map_or(0, |(number, _)| number);
        frame[12..].copy_from_slice(&heard.to_be_bytes());
        frame
    }
}

/// A number that is not 0, which means that nothing was heard.
fn number() -> u32 {
    OsRng.unwrap_err().random::<u32>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer {
        widths: 3,
        speeds: 7,
        speeds_ext: 1,
    };

    /// Lets both ends talk for a while; returns what became of their links.
    fn talk(
        ends: [&mut Training; 2],
        now: &mut Instant,
        time: Duration,
        cut: bool,
    ) -> [Vec<Change>; 2] {
        let mut changes = [Vec::new(), Vec::new()];
        let end = *now + time;
        let [a, b] = ends;
        while *now < end {
            for i in 0..2 {
                let (from, to) = if i == 0 {
                    (&mut *a, &mut *b)
                } else {
                    (&mut *b, &mut *a)
                };
                let (frame, change) = from.tick(*now, OFFER);
                if let Some(change) = change {
                    from.command(*now, LinkCommand::Poll);
                    changes[i].push(change);
                }

                if let Some(frame) = frame.filter(|_| !cut)
                    && let Some(change) = to.receive(*now, &frame)
                {
                    if change == Change::Down {
                        to.command(*now, LinkCommand::Poll);
                    }
                    changes[1 - i].push(change);
                }
            }

            *now += Duration::from_millis(10);
        }

        changes
    }

    #[test]
    fn both_ends_come_up_once_and_stay() {
        let mut now = Instant::now();
        let (mut a, mut b) = (Training::new(now), Training::new(now));
        let changes = talk([&mut a, &mut b], &mut now, Duration::from_secs(30), false);
        assert_eq!(changes, [vec![Change::Up(OFFER)], vec![Change::Up(OFFER)]]);
    }

    #[test]
    fn silence_ends_the_link_and_it_comes_back() {
        let mut now = Instant::now();
        let (mut a, mut b) = (Training::new(now), Training::new(now));
        talk([&mut a, &mut b], &mut now, Duration::from_secs(1), false);
        let changes = talk([&mut a, &mut b], &mut now, Duration::from_secs(3), true);
        assert_eq!(changes, [vec![Change::Down], vec![Change::Down]]);
        talk([&mut a, &mut b], &mut now, Duration::from_secs(1), false);
        assert!(a.is_up() && b.is_up());
    }

    #[test]
    fn an_end_that_begins_anew_takes_the_other_down_at_once() {
        let mut now = Instant::now();
        let (mut a, mut b) = (Training::new(now), Training::new(now));
        talk([&mut a, &mut b], &mut now, Duration::from_secs(1), false);

        // Killed and started again, without a last word.
        let mut a = Training::new(now);
        let changes = talk(
            [&mut a, &mut b],
            &mut now,
            Duration::from_millis(500),
            false,
        );
        assert_eq!(changes[1], [Change::Down, Change::Up(OFFER)]);
        assert!(a.is_up());

        // By command, with one.
        a.command(now, LinkCommand::Disable);
        let changes = talk([&mut a, &mut b], &mut now, Duration::from_secs(1), false);
        assert_eq!(changes, [vec![], vec![Change::Down]]);
        a.command(now, LinkCommand::Sleep);
        talk([&mut a, &mut b], &mut now, Duration::from_secs(1), false);
        assert!(a.is_up() && b.is_up(), "who sleeps is woken");
    }

    #[test]
    fn what_is_no_frame_changes_nothing() {
        let now = Instant::now();
        let mut a = Training::new(now);
        for len in 0..40 {
            assert_eq!(a.receive(now, &vec![0x0f; len]), None);
            assert_eq!(a.receive(now, &vec![0; len]), None);
        }
        assert!(!a.is_up());
    }
}
