//! What a requester knows of its peer.

/// Whether the peer understands selective acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It does not, or this side does not.
    #[default]
    Plain,
    /// It has not answered yet.
    Unknown,
    /// It does.
    Selective,
}
