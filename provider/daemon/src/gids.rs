//! The GID table: which address has which index. An entry keeps its index as long as its address
//! lives, and gets it back if the address returns while nobody else has it.

use std::net::IpAddr;

use ferroce_control::{GID_TABLE_LEN, GidEntry};

use crate::interfaces::{Link, Snapshot};

/// An address that the table should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The address.
    pub addr: IpAddr,
    /// The scope of a link-local address, else 0.
    pub scope_id: u32,
    /// The interface's index.
    pub ifindex: u32,
    /// The interface's name.
    pub ifname: String,
}

impl Wanted {
    /// `ip` on `link`.
    pub(crate) fn new(ip: IpAddr, link: &Link) -> Self {
        Self {
            addr: ip,
            scope_id: if is_link_local(ip) { link.index } else { 0 },
            ifindex: link.index,
            ifname: link.name.clone(),
        }
    }

    /// All of an interface: IPv4 first, then global IPv6, then link-local, so that index 0 is an
    /// address that programs which take the first one can use.
    pub(crate) fn all_of(link: &Link, snapshot: &Snapshot) -> Vec<Self> {
        let mut wanted: Vec<Self> = snapshot
            .addresses
            .iter()
            .filter(|address| address.ifindex == link.index)
            .map(|address| Self::new(address.ip, link))
            .collect();
        wanted.sort_by_key(|w| (w.addr.is_ipv6(), is_link_local(w.addr)));
        wanted.dedup();
        wanted
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The GID of an address, in network order.
pub(crate) fn gid_of(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address that a GID stands for.
pub(crate) fn ip_of(gid: &[u8; 16]) -> IpAddr {
    let ip = std::net::Ipv6Addr::from(*gid);
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

#[derive(Clone, Debug, Default)]
struct Row {
    entry: Option<GidEntry>,
    /// Who had the row last.
    last: Option<(IpAddr, u32)>,
}

/// The table of one port.
#[derive(Clone, Debug)]
pub(crate) struct GidTable {
    rows: Vec<Row>,
    /// Indexes of entries that nobody sees, as a fault has it.
    hidden: Vec<u16>,
}

impl Default for GidTable {
    fn default() -> Self {
        Self {
            rows: vec![Row::default(); usize::from(GID_TABLE_LEN)],
            hidden: Vec::new(),
        }
    }
}

impl GidTable {
    /// A table of just these entries, each at its index.
    pub(crate) fn of(entries: Vec<GidEntry>) -> Self {
        let len = entries.iter().map(|entry| entry.index).max();
        let len = len.map_or(0, |last| usize::from(last) + 1);
        let mut rows = vec![Row::default(); len];
        for entry in entries {
            let index = usize::from(entry.index);
            rows[index].entry = Some(entry);
        }
        Self {
            rows,
            hidden: Vec::new(),
        }
    }

    /// Shows all entries but these from now on. Returns whether anything changed. They keep their
    /// places.
    pub(crate) fn hide(&mut self, hidden: Vec<u16>) -> bool {
        let changed = hidden != self.hidden;
        self.hidden = hidden;
        changed
    }

    /// Makes the table hold what is wanted and nothing else. Returns whether anything changed. What
    /// does not fit is left out.
    pub(crate) fn update(&mut self, wanted: &[Wanted]) -> bool {
        let mut changed = false;
        for row in &mut self.rows {
            let Some(entry) = &mut row.entry else {
                continue;
            };

            match wanted
                .iter()
                .find(|w| w.addr == entry.addr && w.scope_id == entry.scope_id)
            {
                None => {
                    row.entry = None;
                    changed = true;
                }
                Some(w) if w.ifindex != entry.ifindex || w.ifname != entry.ifname => {
                    entry.ifindex = w.ifindex;
                    entry.ifname.clone_from(&w.ifname);
                    changed = true;
                }
                Some(_) => {}
            }
        }

        for w in wanted {
            let key = (w.addr, w.scope_id);
            let mut all = self.rows.iter().filter_map(|row| row.entry.as_ref());
            if all.any(|entry| (entry.addr, entry.scope_id) == key) {
                continue;
            }

            let free = |row: &Row| row.entry.is_none();
            let index = self
                .rows
                .iter()
                .position(|row| free(row) && row.last == Some(key))
                .or_else(|| {
                    self.rows
                        .iter()
                        .position(|row| free(row) && row.last.is_none())
                })
                .or_else(|| self.rows.iter().position(free));

            let Some(index) = index else {
                tracing::warn!(address = %w.addr, "the GID table is full");
                break;
            };

            self.rows[index] = Row {
                entry: Some(GidEntry {
                    index: index as u16,
                    gid: gid_of(w.addr),
                    addr: w.addr,
                    scope_id: w.scope_id,
                    ifindex: w.ifindex,
                    ifname: w.ifname.clone(),
                }),
                last: Some(key),
            };

            changed = true;
        }

        changed
    }

    /// The addresses stay, wherever they are now. Returns whether any has moved, or its interface
    /// has another name. A link-local address is its interface's for good.
    pub(crate) fn locate(&mut self, snapshot: &Snapshot) -> bool {
        let mut changed = false;
        for entry in self.rows.iter_mut().filter_map(|row| row.entry.as_mut()) {
            let link = match entry.scope_id {
                0 => snapshot.link_now(entry.addr, entry.ifindex),
                scope => snapshot.link_at(scope),
            };
            let Some(link) = link else { continue };
            if (link.index, &link.name) != (entry.ifindex, &entry.ifname) {
                entry.ifindex = link.index;
                entry.ifname.clone_from(&link.name);
                changed = true;
            }
        }
        changed
    }

    /// The used entries, by index.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &GidEntry> {
        let all = self.rows.iter().filter_map(|row| row.entry.as_ref());
        all.filter(|entry| !self.hidden.contains(&entry.index))
    }

    /// Whether there is such an entry, hidden ones included.
    pub(crate) fn has(&self, is_it: impl FnMut(&GidEntry) -> bool) -> bool {
        let mut all = self.rows.iter().filter_map(|row| row.entry.as_ref());
        all.any(is_it)
    }

    /// One entry.
    pub(crate) fn entry(&self, index: u16) -> Option<&GidEntry> {
        let entry = self.rows.get(usize::from(index))?.entry.as_ref();
        entry.filter(|_| !self.hidden.contains(&index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::Address;

    fn link() -> Link {
        Link {
            index: 7,
            name: "eth0".into(),
            mtu: 1500,
            mac: None,
            up: true,
            loopback: false,
        }
    }

    fn wanted(ips: &[&str]) -> Vec<Wanted> {
        ips.iter()
            .map(|ip| Wanted::new(ip.parse().unwrap(), &link()))
            .collect()
    }

    fn shown(table: &GidTable) -> Vec<(u16, String)> {
        table
            .entries()
            .map(|entry| (entry.index, entry.addr.to_string()))
            .collect()
    }

    #[test]
    fn indexes_are_stable() {
        let mut table = GidTable::default();
        assert!(table.update(&wanted(&["10.0.0.1", "fd00::1", "fe80::1"])));
        assert!(!table.update(&wanted(&["fe80::1", "10.0.0.1", "fd00::1"])));
        assert!(table.update(&wanted(&["10.0.0.1", "fe80::1"])));
        assert!(table.update(&wanted(&["10.0.0.1", "fe80::1", "10.0.0.2"])));

        // The newcomer took a fresh row, so fd00::1 gets its own back.
        assert!(table.update(&wanted(&["10.0.0.1", "fe80::1", "10.0.0.2", "fd00::1"])));
        let expected = [
            (0, "10.0.0.1"),
            (1, "fd00::1"),
            (2, "fe80::1"),
            (3, "10.0.0.2"),
        ];
        assert_eq!(shown(&table), expected.map(|(i, a)| (i, a.to_owned())));
        assert_eq!(table.entry(2).unwrap().scope_id, 7);
        assert_eq!(table.entry(1).unwrap().scope_id, 0);
        assert!(table.entry(4).is_none() && table.entry(u16::MAX).is_none());
    }

    #[test]
    fn what_is_hidden_keeps_its_place() {
        let mut table = GidTable::default();
        let all = ["10.0.0.1", "fd00::1", "fe80::1"];
        table.update(&wanted(&all));
        let before = shown(&table);
        assert!(table.hide(vec![1]) && !table.hide(vec![1]));
        assert!(!table.update(&wanted(&all)));
        assert_eq!(shown(&table), [before[0].clone(), before[2].clone()]);
        assert!(table.entry(1).is_none());
        assert!(table.hide(Vec::new()));
        assert_eq!(shown(&table), before);
    }

    #[test]
    fn given_addresses_are_where_they_are() {
        let mut table = GidTable::default();
        table.update(&wanted(&["10.0.0.1", "127.0.0.9", "fe80::1"]));
        let mut snapshot = Snapshot {
            links: vec![link()],
            addresses: Vec::new(),
        };
        // Nowhere for now.
        assert!(!table.locate(&snapshot));
        snapshot.links[0].name = "net9".into();
        assert!(table.locate(&snapshot) && !table.locate(&snapshot));
        assert!(table.entries().all(|entry| entry.ifname == "net9"));

        let other = Link {
            index: 8,
            name: "eth1".into(),
            ..link()
        };
        snapshot.links.push(other);
        snapshot.addresses.push(Address {
            ifindex: 8,
            ip: "10.0.0.1".parse().unwrap(),
            prefix_len: 24,
        });
        assert!(table.locate(&snapshot));
        let places: Vec<u32> = table.entries().map(|entry| entry.ifindex).collect();
        assert_eq!(places, [8, 7, 7]);
    }

    #[test]
    fn an_overfull_table_keeps_what_it_has() {
        let many: Vec<String> = (0..100).map(|n| format!("10.0.1.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut table = GidTable::default();
        assert!(table.update(&wanted(&many)));
        assert_eq!(table.entries().count(), usize::from(GID_TABLE_LEN));
        assert!(!table.update(&wanted(&many)));
        assert!(table.update(&[]));
        assert_eq!(table.entries().count(), 0);
    }

    #[test]
    fn ipv4_appears_mapped_and_comes_first() {
        let gid = gid_of("127.0.0.1".parse().unwrap());
        assert_eq!(
            gid,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1]
        );

        let addresses = ["fe80::2", "fd00::2", "192.0.2.2"].map(|ip| Address {
            ifindex: 7,
            ip: ip.parse().unwrap(),
            prefix_len: 64,
        });

        let snapshot = Snapshot {
            links: vec![link()],
            addresses: addresses.to_vec(),
        };

        let order: Vec<String> = Wanted::all_of(&link(), &snapshot)
            .iter()
            .map(|w| w.addr.to_string())
            .collect();
        assert_eq!(order, ["192.0.2.2", "fd00::2", "fe80::2"]);
    }
}
