//! Partition keys (section 10.9): 15 bits that name a partition, and the highest bit, which says
//! full member. Keys are in host byte order.

const NAME: u16 = 0x7fff;

/// Whether a key is one at all, and not an empty entry of a table (C10-116).
#[inline]
pub fn is_valid(key: u16) -> bool {
    key & NAME != 0
}

/// Whether two keys name one partition, whatever the memberships.
#[inline]
pub fn is_same_partition(a: u16, b: u16) -> bool {
    (a ^ b) & NAME == 0
}

/// Whether the key is of a full member.
#[inline]
pub fn is_full_member(key: u16) -> bool {
    key & !NAME != 0
}

/// Whether an entry of a table matches the key of a packet (C9-43): one partition, and not limited
/// members both.
#[inline]
pub fn matches(own: u16, theirs: u16) -> bool {
    is_valid(own) && is_same_partition(own, theirs) && is_full_member(own | theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_members_talk_to_full_members_only() {
        assert!(matches(0xffff, 0xffff) && matches(0xffff, 0x7fff) && matches(0x7fff, 0xffff));
        assert!(!matches(0x7fff, 0x7fff));
        assert!(!matches(0xffff, 0xfffe));
    }

    #[test]
    fn an_empty_entry_matches_nothing() {
        for empty in [0, 0x8000] {
            assert!(!is_valid(empty) && !matches(empty, empty) && !matches(empty, 0xffff));
        }
    }
}
