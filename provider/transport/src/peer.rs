//! What a requester knows of its peer.

/// Whether the peer understands selective acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Nobody has said that it might, or this side does not: nothing is shown to it.
    #[default]
    Stranger,
    /// It has answered that it does not.
    Plain,
    /// It might, and has not shown yet that it does.
    Unknown,
    /// It does.
    Selective,
}
