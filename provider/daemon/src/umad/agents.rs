//! Which agents are registered, and whose a MAD that came is. No I/O, no time.
//!
//! Responses go by the upper half of the transaction ID, which is an agent's own number; everything
//! else by port, class, version, method and, for vendor classes, OUI. No two agents of a port may
//! want the same.

use std::collections::HashMap;

use ferroce_fabric::rmpp;
use ferroce_wire::mad::{CLASS_CM, MadHeader, QP0, method};
use ferroce_wire::smp;
use rustix::io::Errno;

/// The kernel's bound of class versions.
const MAX_VERSION: u8 = 8;
/// The kernel's bound of classes.
const MAX_CLASS: u8 = 80;

/// What an agent asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The port, from 1.
    pub(crate) port: u8,
    /// 0 or 1.
    pub(crate) qpn: u8,
    /// Management class; 0: nothing that is not a response.
    pub(crate) class: u8,
    /// Its version.
    pub(crate) version: u8,
    /// OUI, of the vendor classes that have one.
    pub(crate) oui: [u8; 3],
    /// Methods, by bit.
    pub(crate) methods: u128,
    /// RMPP version.
    pub(crate) rmpp: u8,
    /// The program does RMPP itself.
    pub(crate) user_rmpp: bool,
}

/// A registered agent.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// The file through which it was registered.
    pub(crate) file: u64,
    /// Its number in that file.
    pub(crate) id: u32,
    /// What it asked for.
    pub(crate) wants: Registration,
}

impl Agent {
    /// Whether RMPP is done here for MADs of this class.
    pub(super) fn does_rmpp(&self, class: u8) -> bool {
        self.wants.rmpp != 0 && !self.wants.user_rmpp && rmpp::has_header(class)
    }
}

/// All agents, by the upper half of their transaction IDs.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    by_tid: HashMap<u32, Agent>,
    last: u32,
}

fn has_oui(class: u8) -> bool {
    (0x30..=0x4f).contains(&class)
}

impl Registration {
    /// Whether the combination makes sense, as the kernel sees it.
    fn check(&self) -> Result<(), Errno> {
        let of_qp0 = smp::is_class(self.class);
        let bad = self.qpn > 1
            || self.rmpp > 1
            || self.class != 0
                && (self.version >= MAX_VERSION
                    || self.class >= MAX_CLASS && self.class != smp::CLASS_DIRECTED
                    || has_oui(self.class) && self.oui == [0; 3]
                    || self.rmpp != 0 && !rmpp::has_header(self.class)
                    || of_qp0 != (u32::from(self.qpn) == QP0)
                    || self.class == CLASS_CM && self.methods & 1 << method::SEND != 0);
        if bad { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// Whether a MAD of theirs would be a MAD of ours.
    fn collides(&self, other: &Registration) -> bool {
        self.port == other.port
            && self.class == other.class
            && self.class != 0
            && self.version == other.version
            && (!has_oui(self.class) || self.oui == other.oui)
            && self.methods & other.methods != 0
    }
}

impl Agents {
    /// Registers an agent; returns the upper half of its transaction IDs.
    pub(super) fn register(
        &mut self,
        file: u64,
        id: u32,
        wants: Registration,
    ) -> Result<u32, Errno> {
        wants.check()?;
        if self.by_tid.values().any(|a| a.wants.collides(&wants)) {
            return Err(Errno::INVAL);
        }
        let mut tid = self.last;
        loop {
            tid = tid.wrapping_add(1).max(1);
            if !self.by_tid.contains_key(&tid) {
                break;
            }
        }
        self.last = tid;
        self.by_tid.insert(tid, Agent { file, id, wants });
        Ok(tid)
    }

    /// Forgets an agent.
    pub(crate) fn remove(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }

    /// An agent.
    pub(crate) fn agent(&self, tid: u32) -> Option<&Agent> {
        self.by_tid.get(&tid)
    }

    /// Whose a MAD that came to a port is.
    pub(crate) fn owner(&self, port: u8, header: &MadHeader, bytes: &[u8]) -> Option<u32> {
        if header.is_response() {
            let tid = (header.tid >> 32) as u32;
            return self.by_tid.contains_key(&tid).then_some(tid);
        }

        let method = header.method & !method::RESPONSE;
        let oui = bytes.get(37..40);
        self.by_tid
            .iter()
            .find(|(_, agent)| {
                let wants = &agent.wants;
                wants.port == port
                    && wants.class == header.class
                    && wants.version == header.class_version
                    && wants.methods >> method & 1 != 0
                    && (!has_oui(wants.class) || oui == Some(&wants.oui[..]))
            })
            .map(|(tid, _)| *tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::mad;

    fn wants(class: u8, methods: u128) -> Registration {
        Registration {
            port: 1,
            qpn: u8::from(!smp::is_class(class)),
            class,
            version: 1,
            oui: [0, 0, 0],
            methods,
            rmpp: 0,
            user_rmpp: false,
        }
    }

    fn header(class: u8, method: u8, tid: u64) -> MadHeader {
        MadHeader {
            base_version: 1,
            class,
            class_version: 1,
            method,
            tid,
            ..MadHeader::default()
        }
    }

    #[test]
    fn two_agents_cannot_want_the_same() {
        let mut agents = Agents::default();
        let a = agents.register(1, 0, wants(4, 0b10)).unwrap();
        assert_eq!(agents.register(1, 1, wants(4, 0b110)), Err(Errno::INVAL));
        let b = agents.register(1, 1, wants(4, 0b100)).unwrap();
        assert_ne!(a, b);
        let mut other = wants(4, 0b10);
        other.port = 2;
        agents.register(1, 2, other).unwrap();
        agents.remove(a);
        agents.register(1, 0, wants(4, 0b10)).unwrap();
    }

    #[test]
    fn requests_go_by_method_and_responses_by_transaction() {
        let mut agents = Agents::default();
        let a = agents.register(1, 0, wants(4, 1 << 1)).unwrap();
        let b = agents.register(1, 1, wants(0, 0)).unwrap();
        let bytes = [0; mad::LEN];
        assert_eq!(agents.owner(1, &header(4, 1, 0), &bytes), Some(a));
        assert_eq!(agents.owner(2, &header(4, 1, 0), &bytes), None);
        assert_eq!(agents.owner(1, &header(4, 2, 0), &bytes), None);
        let tid = u64::from(b) << 32 | 7;
        assert_eq!(agents.owner(1, &header(4, 0x81, tid), &bytes), Some(b));
        assert_eq!(agents.owner(1, &header(4, 0x81, 0), &bytes), None);
    }

    #[test]
    fn vendor_classes_go_by_oui() {
        let mut agents = Agents::default();
        let mut openib = wants(0x32, 1 << 1);
        assert_eq!(agents.register(1, 0, openib.clone()), Err(Errno::INVAL));
        openib.oui = [0, 0x14, 5];
        let a = agents.register(1, 0, openib).unwrap();
        let mut bytes = [0; mad::LEN];
        assert_eq!(agents.owner(1, &header(0x32, 1, 0), &bytes), None);
        bytes[37..40].copy_from_slice(&[0, 0x14, 5]);
        assert_eq!(agents.owner(1, &header(0x32, 1, 0), &bytes), Some(a));
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let mut agents = Agents::default();
        let mut refused = |change: &dyn Fn(&mut Registration)| {
            let mut wants = wants(4, 2);
            change(&mut wants);
            assert_eq!(
                agents.register(1, 0, wants.clone()),
                Err(Errno::INVAL),
                "{wants:?}"
            );
        };

        refused(&|w| w.qpn = 2);
        refused(&|w| w.qpn = 0);
        refused(&|w| w.class = smp::CLASS_LID);
        refused(&|w| w.class = 0x50);
        refused(&|w| w.version = 8);
        refused(&|w| w.rmpp = 1);
        refused(&|w| w.rmpp = 2);
        refused(&|w| {
            w.class = CLASS_CM;
            w.methods = 1 << 3;
        });
    }
}
