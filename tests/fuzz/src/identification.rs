//! How senders number their IPv4 packets: an honest one, whose packets the network delays, loses
//! and repeats, is never taken for damage, and one that has shown a habit is held to it.

use ferroce_wire::identification::Habit;

/// Packets from which on a sender must have shown its habit.
const SHOWN: u32 = 200;
/// Of one that has, no more numbers than these are taken for its next: those of a counting sender.
const HELD: usize = 1 << 14;
/// One number of so many is tried when that is looked at.
const STRIDE: usize = 61;
/// The network delivers a packet before that many numbers have overtaken it, or never; and no such
/// gap is between two that it delivers.
const WINDOW: u16 = 1 << 11;

/// How an honest sender numbers.
#[derive(Clone, Copy, Debug)]
enum Honest {
    /// Always 0, as Linux does from sockets that are not connected.
    Zero,
    /// From 0 for each send that it cuts into packets.
    Runs,
    /// One after the other, others' packets between.
    Counts,
}

/// A sender, the network, and what a receiver knows.
struct Flow {
    habit: Habit,
    sender: Honest,
    /// The number that comes next, and the one delivered last.
    next: u16,
    last: u16,
    /// Packets on their way.
    held: Vec<u16>,
    /// Packets delivered in all, and since damage was last taken for another sender.
    delivered: u32,
    shown: u32,
    /// Damaged packets in a row.
    damaged: u32,
}

/// One flow: what the sender does, its first number, then steps of two bytes. Returns whether the
/// sender has been held to its habit.
pub fn run(input: &[u8]) -> bool {
    let [sender, low, high, steps @ ..] = input else {
        return false;
    };

    let sender = [Honest::Zero, Honest::Runs, Honest::Counts][usize::from(sender % 3)];
    let first = match sender {
        Honest::Counts => u16::from_le_bytes([*low, *high]),
        _ => 0,
    };

    let mut flow = Flow {
        habit: Habit::default(),
        sender,
        next: first,
        last: first,
        held: Vec::new(),
        delivered: 0,
        shown: 0,
        damaged: 0,
    };

    // So short inputs have shown a habit, too.
    for _ in 0..u32::from(*low) + u32::from(*high) {
        flow.send(0);
        flow.deliver(0, 1);
    }

    for step in steps.chunks_exact(2) {
        match step[0] % 8 {
            0..=2 => flow.send(step[1]),
            3..=5 => flow.deliver(step[1].into(), 1),
            // Few come twice: all of a counting sender's small numbers would be those of runs.
            6 => flow.deliver(
                step[1].into(),
                1 + usize::from(flow.delivered.is_multiple_of(8)),
            ),
            _ => flow.damage(u16::from_le_bytes([step[0] & 0xf8, step[1]])),
        }
    }

    flow.is_held()
}

impl Flow {
    /// The sender sends a packet. `others`: what it has sent to others meanwhile, or where its run
    /// ends. What the network cannot hold is lost.
    fn send(&mut self, others: u8) {
        let (id, next) = match self.sender {
            Honest::Zero => (0, 0),
            Honest::Runs if others >= 0x40 => (self.next, 0),
            Honest::Runs => (self.next, (self.next + 1) % 64),
            Honest::Counts if self.next.wrapping_sub(self.last) > WINDOW => return,
            Honest::Counts => (
                self.next,
                self.next.wrapping_add(1 + u16::from(others % 16)),
            ),
        };
        self.next = next;
        if self.held.len() < 64 {
            self.held.push(id);
        }
    }

    /// The network delivers one of the packets that it holds, so many copies of it.
    fn deliver(&mut self, which: usize, copies: usize) {
        let newest = self.next;
        if matches!(self.sender, Honest::Counts) {
            self.held.retain(|id| newest.wrapping_sub(*id) <= WINDOW);
        }

        if self.held.is_empty() {
            // All are lost, and the sender goes on.
            self.last = newest;
            return;
        }

        let id = self.held.remove(which % self.held.len());
        for _ in 0..copies {
            assert!(
                self.habit.takes(id),
                "{id} of a sender of {:?} is no damage: {:?}",
                self.sender,
                self.habit
            );
        }

        self.last = id;
        self.delivered += 1;
        self.shown += 1;
        self.damaged = 0;
    }

    /// A packet is damaged so that another number explains its ICRC.
    fn damage(&mut self, id: u16) {
        let before = self.habit;
        if self.habit.takes(id) {
            // Such damage is not seen, and what it does to the habit is not what is looked at here.
            self.habit = before;
            return;
        }
        self.damaged += 1;
        if self.damaged == 2 {
            // Twice in a row it looks like another sender.
            (self.damaged, self.shown) = (0, 0);
        }
    }

    /// Whether the sender has shown what it does; it is held to it then.
    fn is_held(&self) -> bool {
        if self.shown < SHOWN {
            return false;
        }
        let taken = (0..=u16::MAX).step_by(STRIDE).filter(|id| {
            let mut habit = self.habit;
            habit.takes(*id)
        });
        // They may lie on both sides of 0.
        assert!(taken.count() <= HELD / STRIDE + 2, "{:?}", self.habit);
        true
    }
}
