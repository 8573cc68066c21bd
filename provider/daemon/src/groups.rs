//! The groups of sockets of a device: one for each of its addresses, and for one that it has no
//! more as long as somebody has a socket of it.

use std::net::IpAddr;
use std::ops::{Index, IndexMut};

use crate::group::Group;

/// All of them. A group keeps its number as long as it lives; then it may be another's.
#[derive(Debug, Default)]
pub(crate) struct Groups(Vec<Option<Group>>);

impl Groups {
    /// Takes another one in. Returns its number.
    pub(crate) fn add(&mut self, group: Group) -> usize {
        let free = self.0.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[number] = Some(group);
        number
    }

    /// The one of that number.
    pub(crate) fn get(&self, number: usize) -> Option<&Group> {
        self.0.get(number)?.as_ref()
    }

    /// The number of the one that serves an address. `scope_id` is that of a link-local address,
    /// else 0.
    pub(crate) fn of(&self, ip: IpAddr, scope_id: u32) -> Option<usize> {
        let mut all = self.iter();
        let found = all.find(|(_, group)| group.serves(ip, scope_id));
        found.map(|(number, _)| number)
    }

    /// All, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Group)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(number, group)| Some((number, group.as_ref()?)))
    }

    /// The smallest receive buffer that the kernel granted one of them, as it counts it.
    pub(crate) fn granted_receive_buffer(&self) -> Option<u32> {
        let granted = self.iter().map(|(_, group)| group.granted_receive_buffer());
        granted.min()
    }

    /// All, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.0.iter_mut().flatten()
    }

    /// Closes the one of that number.
    pub(crate) fn close(&mut self, number: usize) {
        if let Some(place) = self.0.get_mut(number) {
            *place = None;
        }
    }

    /// Closes all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl FromIterator<Group> for Groups {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        Self(groups.into_iter().map(Some).collect())
    }
}

/// Of a group that lives, as those do of which a client has a socket.
impl Index<usize> for Groups {
    type Output = Group;

    fn index(&self, number: usize) -> &Group {
        self.get(number).expect("the group of this number lives")
    }
}

impl IndexMut<usize> for Groups {
    fn index_mut(&mut self, number: usize) -> &mut Group {
        let group = self.0.get_mut(number).and_then(Option::as_mut);
        group.expect("the group of this number lives")
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn open(last: u8) -> (IpAddr, Group) {
        let ip = IpAddr::from(Ipv4Addr::new(127, 0, 7, last));
        (ip, Group::open(ip, 0, 65_536).unwrap())
    }

    #[test]
    fn a_number_is_another_ones_only_when_its_group_has_gone() {
        let [(a, first), (b, second), (c, third)] = [90, 91, 92].map(open);
        let mut groups: Groups = [first].into_iter().collect();
        assert_eq!(groups.add(second), 1);
        assert_eq!(
            [a, b, c].map(|ip| groups.of(ip, 0)),
            [Some(0), Some(1), None]
        );
        assert!(groups.get(2).is_none() && groups.of(a, 7).is_none());

        groups.close(0);
        assert!(groups.get(0).is_none() && groups.of(a, 0).is_none());
        assert_eq!(groups[1].ip(), b);
        assert_eq!(groups.add(third), 0);
        let all: Vec<_> = groups
            .iter()
            .map(|(number, group)| (number, group.ip()))
            .collect();
        assert_eq!(all, [(0, c), (1, b)]);
        // The address is free.
        open(90);
        groups.close(5);
        groups.clear();
        assert_eq!(groups.iter().count(), 0);
    }
}
