//! What happens to packets on the way, as a seed says.

/// Of a thousand packets, how many are lost, changed, and so on. All zeros: each comes as it was
/// sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// What the numbers follow from.
    pub seed: u64,
    /// Not delivered.
    pub lost: u16,
    /// Delivered with a bit turned over.
    pub changed: u16,
    /// Delivered twice.
    pub repeated: u16,
    /// Overtaken by the next.
    pub late: u16,
}

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    Lost,
    /// A number of which the bit follows.
    Changed(u64),
    Repeated,
    Late,
}

impl Faults {
    /// The same for one of two ways, which have numbers of their own.
    pub(super) fn of_way(self, way: u64) -> Faults {
        Faults {
            seed: self.seed.wrapping_mul(2).wrapping_add(way),
            ..self
        }
    }

    /// Whether every packet comes as it was sent.
    pub(super) fn is_none(&self) -> bool {
        let Faults {
            lost,
            changed,
            repeated,
            late,
            ..
        } = *self;
        lost + changed + repeated + late == 0
    }

    pub(super) fn next_fate(&mut self) -> Fate {
        let draw = self.draw();
        let mut left = (draw % 1000) as u16;
        let mut falls = |share: u16| {
            let hit = left < share;
            left = left.saturating_sub(share);
            hit
        };

        if falls(self.lost) {
            Fate::Lost
        } else if falls(self.changed) {
            Fate::Changed(draw / 1000)
        } else if falls(self.repeated) {
            Fate::Repeated
        } else if falls(self.late) {
            Fate::Late
        } else {
            Fate::Arrives
        }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}
