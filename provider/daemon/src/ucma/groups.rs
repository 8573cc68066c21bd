//! The multicast groups of ids: who has a part in one, and over InfiniBand by which membership of a
//! port.

use ferroce_wire::sa::McMemberRecord;

use super::addr::Gid;

/// The most groups of one id.
pub(super) const MAX_GROUPS: usize = 64;

/// A group of which an id is a member.
#[derive(Debug)]
pub(super) struct Group {
    /// The member.
    pub id: u32,
    /// What the program wants to find in the group's events.
    pub uid: u64,
    /// How many of them it has fetched.
    pub reported: u32,
    /// Over InfiniBand.
    pub(super) member: Option<Membership>,
}

/// A port's membership, as one id has a part in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    pub(super) port: u8,
    pub(super) gid_index: u16,
    /// What is asked for, and once it is so, what there is.
    pub(super) record: McMemberRecord,
    pub(super) asks: Option<u32>,
    pub(super) joined: bool,
}

impl Membership {
    pub(super) fn is_same(&self, port: u8, mgid: &Gid) -> bool {
        self.port == port && self.record.mgid == *mgid
    }

    /// Whether the administrator may have this membership: it has not been refused.
    pub(super) fn may_count(&self) -> bool {
        self.joined || self.asks.is_some()
    }
}
