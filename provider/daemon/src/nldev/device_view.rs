//! What a device shows of itself.

use ferroce_control::objects::{QpNumbers, QueuePair};
use ferroce_control::{DeviceInfo, IbPort};

use super::{Client, Identifier, View};
use crate::adapter::Adapter;
use crate::ucma;
use crate::users::Whose;

/// The device and its identifiers.
pub(crate) struct DeviceView<'a> {
    pub(crate) adapter: &'a Adapter,
    pub(crate) rdma_cm: &'a ucma::Server,
}

impl View for DeviceView<'_> {
    fn info(&self) -> &DeviceInfo {
        &self.adapter.info
    }

    fn ib_ports(&self) -> &[IbPort] {
        &self.adapter.ib.shown
    }

    fn first_umad(&self) -> u32 {
        self.adapter.first_umad
    }

    fn hw_counters(&self) -> Vec<(&'static str, u64)> {
        self.adapter.totals().hw_counters()
    }

    fn clients(&self, whose: Whose) -> Vec<Client> {
        let claims = self.adapter.claims.iter();
        let theirs = claims.filter(|(_, claimed)| whose.include(claimed.uid));
        let clients = theirs.map(|(slot, claimed)| Client {
            pid: claimed.pid,
            slot,
            objects: claimed.objects.objects(),
        });
        clients.collect()
    }

    fn numbers(&self, slot: u8, qp: &QueuePair) -> QpNumbers {
        let claimed = self.adapter.claims.of(slot);
        claimed.map_or_else(QpNumbers::default, |claimed| {
            claimed.objects.numbers(qp.row)
        })
    }

    fn identifiers(&self, whose: Whose) -> Vec<Identifier> {
        self.rdma_cm.listed(whose)
    }
}
