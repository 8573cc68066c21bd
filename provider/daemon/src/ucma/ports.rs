//! Port spaces: who has which port, and whether somebody else may have it too. The rules are those
//! of the kernel's rdma_cm, which are stricter than those of sockets: a wildcard excludes everybody
//! else from a port.

use std::collections::HashMap;
use std::fs;
use std::ops::RangeInclusive;

use rustix::io::Errno;

use super::addr::Addr;

/// A port of a port space (`RDMA_PS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Port {
    /// The space.
    pub space: u16,
    /// The port.
    pub number: u16,
}

/// What counts when two owners of a port are compared.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// The id.
    pub id: u32,
    /// Where it is bound, with the port or without.
    pub src: Addr,
    /// Whether `src` is a wildcard.
    pub any: bool,
    /// Where it wants to go.
    pub dst: Addr,
    /// Whether `dst` names nobody in particular.
    pub dst_any: bool,
    /// `RDMA_OPTION_ID_REUSEADDR`.
    pub reuse: bool,
    /// `RDMA_OPTION_ID_AFONLY`, or what stands for it.
    pub afonly: bool,
    /// Whether it listens.
    pub listening: bool,
}

/// All port spaces.
#[derive(Debug)]
pub(super) struct Ports {
    owners: HashMap<Port, Vec<Owner>>,
    /// What is chosen from when no port is asked for.
    range: RangeInclusive<u16>,
    /// The port chosen last, which is not chosen again at once.
    last: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            owners: HashMap::new(),
            range: ephemeral(),
            last: 0,
        }
    }
}

impl Ports {
    /// Gives an id the port that it asks for.
    pub(super) fn claim(&mut self, port: Port, owner: Owner) -> Result<(), Errno> {
        let owners = self.owners.entry(port).or_default();
        let result = check(owners, &owner, owner.reuse);
        if result.is_ok() {
            owners.push(owner);
        } else if owners.is_empty() {
            self.owners.remove(&port);
        }
        result
    }

    /// Gives an id some port. `random` decides where the search begins.
    pub(super) fn claim_any(
        &mut self,
        space: u16,
        owner: Owner,
        random: u32,
    ) -> Result<u16, Errno> {
        let (low, high) = (u32::from(*self.range.start()), u32::from(*self.range.end()));
        let count = high - low + 1;
        for step in 0..count {
            let number = (low + (random % count + step) % count) as u16;
            if number == self.last {
                continue;
            }
            let port = Port { space, number };
            match self.owners.get_mut(&port) {
                None => drop(self.owners.insert(port, vec![owner])),
                Some(owners) if unique(owners, &owner) => owners.push(owner),
                Some(_) => continue,
            }
            self.last = number;
            return Ok(number);
        }

        Err(Errno::ADDRNOTAVAIL)
    }

    /// Whether an owner of a port may begin to listen though it allowed others to share it.
    pub(super) fn may_listen(&self, port: Port, id: u32) -> Result<(), Errno> {
        let owners = self.owners.get(&port).map_or(&[][..], Vec::as_slice);
        match owners.iter().find(|owner| owner.id == id) {
            Some(owner) => check(owners, owner, false),
            None => Ok(()),
        }
    }

    /// Changes what is known of an owner.
    pub(super) fn update(&mut self, port: Port, id: u32, change: impl FnOnce(&mut Owner)) {
        let owners = self.owners.get_mut(&port);
        if let Some(owner) = owners.and_then(|owners| owners.iter_mut().find(|o| o.id == id)) {
            change(owner);
        }
    }

    /// Takes a port from an id.
    pub(super) fn release(&mut self, port: Port, id: u32) {
        if let Some(owners) = self.owners.get_mut(&port) {
            owners.retain(|owner| owner.id != id);
            if owners.is_empty() {
                self.owners.remove(&port);
            }
        }
    }
}

/// Whether a newcomer can be told from all owners of a port by where they go.
fn unique(owners: &[Owner], new: &Owner) -> bool {
    owners.iter().all(|owner| {
        let other_port = owner.dst.port() != 0 && owner.dst.port() != new.dst.port();
        let other_source = !new.any && !owner.any && !new.src.same_host(&owner.src);
        let other_destination = !owner.dst_any && !new.dst.same_host(&owner.dst);
        other_port || other_source || other_destination
    })
}

fn check(owners: &[Owner], new: &Owner, reuse: bool) -> Result<(), Errno> {
    for owner in owners.iter().filter(|owner| owner.id != new.id) {
        let shared = !owner.listening && reuse && owner.reuse;
        let apart = new.afonly && owner.afonly && new.src.family() != owner.src.family();
        if shared || apart {
            continue;
        }
        if new.any || owner.any {
            return Err(Errno::ADDRNOTAVAIL);
        }
        if new.src.same_host(&owner.src) {
            return Err(Errno::ADDRINUSE);
        }
    }
    Ok(())
}

/// The ports that are chosen from when none is asked for: the host's.
fn ephemeral() -> RangeInclusive<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(low)), Some(Ok(high))) if low > 0 && low <= high => low..=high,
        _ => 32_768..=60_999,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(id: u32, src: &str) -> Owner {
        let src = Addr::ip(src.parse().unwrap(), 0, 0);
        Owner {
            id,
            src,
            any: src.is_zero(),
            dst: Addr::None,
            dst_any: true,
            reuse: false,
            afonly: src.family() == libc::AF_INET as u16,
            listening: false,
        }
    }

    const PORT: Port = Port {
        space: 0x106,
        number: 7174,
    };

    #[test]
    fn a_port_is_one_owners_unless_addresses_differ() {
        let mut ports = Ports::default();
        ports.claim(PORT, owner(1, "10.0.0.1")).unwrap();
        assert_eq!(
            ports.claim(PORT, owner(2, "10.0.0.1")),
            Err(Errno::ADDRINUSE)
        );

        ports.claim(PORT, owner(3, "10.0.0.2")).unwrap();
        assert_eq!(
            ports.claim(PORT, owner(4, "0.0.0.0")),
            Err(Errno::ADDRNOTAVAIL)
        );

        let other = Port {
            space: 0x111,
            ..PORT
        };
        ports.claim(other, owner(4, "0.0.0.0")).unwrap();
        ports.release(PORT, 1);
        ports.release(PORT, 3);
        ports.claim(PORT, owner(5, "0.0.0.0")).unwrap();

        // Neither insists on its family, but one does not suffice.
        assert_eq!(ports.claim(PORT, owner(6, "::")), Err(Errno::ADDRNOTAVAIL));
        let only = Owner {
            afonly: true,
            ..owner(6, "::")
        };
        ports.claim(PORT, only).unwrap();
    }

    #[test]
    fn reuse_ends_where_listening_begins() {
        let mut ports = Ports::default();
        let shared = |id| Owner {
            reuse: true,
            ..owner(id, "10.0.0.1")
        };
        ports.claim(PORT, shared(1)).unwrap();
        ports.claim(PORT, shared(2)).unwrap();
        assert_eq!(ports.may_listen(PORT, 1), Err(Errno::ADDRINUSE));
        ports.release(PORT, 2);
        ports.may_listen(PORT, 1).unwrap();
        ports.update(PORT, 1, |owner| owner.listening = true);
        assert_eq!(ports.claim(PORT, shared(3)), Err(Errno::ADDRINUSE));
    }

    #[test]
    fn any_port_is_a_free_one_or_one_that_leads_elsewhere() {
        let mut ports = Ports::default();
        let range = ephemeral();
        let first = ports.claim_any(0x106, owner(1, "10.0.0.1"), 0).unwrap();
        assert!(range.contains(&first));
        let second = ports.claim_any(0x106, owner(2, "10.0.0.1"), 0).unwrap();
        assert_ne!(first, second);
        let towards = |id, dst: &str| {
            let dst = Addr::ip(dst.parse().unwrap(), 80, 0);
            Owner {
                dst,
                dst_any: false,
                ..owner(id, "10.0.0.1")
            }
        };

        let mut ports = Ports::default();
        for number in range.clone() {
            let port = Port {
                space: 0x106,
                number,
            };
            ports
                .claim(port, towards(u32::from(number), "10.0.0.9"))
                .unwrap();
        }

        let refused = ports.claim_any(0x106, towards(1, "10.0.0.9"), 5);
        assert_eq!(refused, Err(Errno::ADDRNOTAVAIL));
        ports.claim_any(0x106, towards(2, "10.0.0.8"), 5).unwrap();
    }
}
