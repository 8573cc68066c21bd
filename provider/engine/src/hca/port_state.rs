//! The ports as verbs see them. That of a RoCE device follows its interface.

use ferroce_control::Counter;
use ferroce_transport::{QpAttr, QpAttrMask};

use super::Hca;
use crate::error::{Error, Result};
use crate::port::{Ports, ib};
use crate::verbs::limits::{PortAttr, Violations};

impl Hca {
    /// A port as it is now (section 11.2.1.2; `EINVAL`: there is none of that number).
    pub fn port_attr(&self, number: u8) -> Result<PortAttr> {
        if let Ports::Infiniband(ports) = &self.ports {
            let port = ib::find(ports, number)?.state();
            // The counters are as they were when the port last changed.
            let now = self.control.ask(|daemon| daemon.ports());
            // Events may have come before the answer.
            self.control_events();
            let now = now.ok().and_then(|ports| {
                let mut ports = ports.into_iter();
                ports.find(|now| now.number == number)
            });
            let mut port = now.unwrap_or(port);
            if self.is_gone() {
                port.state = 1;
            }
            return Ok(PortAttr::of_infiniband(&port));
        }

        if number != 1 {
            return Err(Error::Invalid("the device has port 1 only"));
        }

        // First, as it takes what the daemon has told.
        let violations = self.violations();
        Ok(PortAttr::new(
            self.link.is_active(),
            self.link.mtu(),
            self.link.mbps(),
            violations,
        ))
    }

    /// The MTU of the port that a change of attributes is about.
    pub(crate) fn active_mtu(&self, attr: &QpAttr, mask: QpAttrMask) -> u32 {
        let number = if mask.contains(QpAttrMask::AV) {
            attr.av.port_num
        } else {
            attr.port_num
        };
        let port = ib::find(self.ports.with_cables(), number).ok();
        port.map_or(self.link.mtu(), |port| port.state().active_mtu)
    }

    /// Bytes of the longest datagram that leaves by the port.
    pub(crate) fn datagram_mtu(&self) -> u32 {
        self.link.mtu()
    }

    /// What all processes of the port have counted. The daemon knows; without it, this process's
    /// own.
    fn violations(&self) -> Violations {
        let status = match self.is_gone() {
            true => None,
            false => self.control.ask(|daemon| daemon.status()).ok(),
        };

        // Events may have come before the answer.
        self.control_events();
        let count = |counter: Counter| {
            let sums = status.iter().flat_map(|status| &status.counters);
            let found = sums.into_iter().find(|(name, _)| name == counter.name());
            let n = found.map_or_else(|| self.counters.read(counter), |(_, n)| *n);
            u32::try_from(n).unwrap_or(u32::MAX)
        };

        Violations {
            pkey: count(Counter::RxWrongPkey),
            qkey: count(Counter::QkeyViolation),
        }
    }
}
