//! The circumstances in which a program is run.

use super::field::{Family, Side};

/// The circumstances of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Who serves; the other side is the client, or the process that a C program is.
    pub server: Side,
    /// What carries the traffic.
    pub family: Family,
    /// The link's MTU.
    pub mtu: u32,
    /// Whether packets are lost, doubled, delayed and reordered.
    pub bad: bool,
}

impl Setting {
    /// In words.
    pub(super) fn name(&self) -> String {
        format!(
            "{} serves, {}, MTU {}{}",
            self.server.name(),
            self.family.name(),
            self.mtu,
            if self.bad { ", bad network" } else { "" }
        )
    }
}

/// The small and the large MTU of the link.
pub(super) const MTUS: [u32; 2] = [1500, 9000];
/// What carries the traffic.
pub(super) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// Who serves.
pub(super) const SIDES: [Side; 2] = [Side::Ferroce, Side::Rxe];
