//! Sets of ports.

/// A set of ports of a switch, 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSet([u16; 16]);

impl PortSet {
    /// Is the port in it?
    pub fn contains(&self, port: u8) -> bool {
        self.0[usize::from(port / 16)] & 1 << (port % 16) != 0
    }

    /// The ports in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        let set = *self;
        (0..=u8::MAX).filter(move |port| set.contains(*port))
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|ports| *ports == 0)
    }

    pub(super) fn insert(&mut self, port: u8) {
        self.0[usize::from(port / 16)] |= 1 << (port % 16);
    }

    pub(super) fn sixteen(&self, position: usize) -> u16 {
        self.0[position]
    }

    pub(super) fn set_sixteen(&mut self, position: usize, ports: u16) {
        self.0[position] = ports;
    }
}
