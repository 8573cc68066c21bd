//! How much a manager keeps.

/// Bounds of what a manager keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections and resolutions, those that linger after their end included.
    pub connections: usize,
    /// Of these, the ones that peers began and that are not established; the oldest makes room for
    /// one more.
    pub half_open: usize,
    /// The same of one peer, which is a GID.
    pub half_open_of_peer: usize,
    /// The same at one listener.
    pub half_open_of_listener: usize,
    /// Listeners.
    pub listeners: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 200_000,
            half_open: 20_000,
            half_open_of_peer: 5_000,
            half_open_of_listener: 10_000,
            listeners: 20_000,
        }
    }
}
