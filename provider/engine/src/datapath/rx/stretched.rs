//! Stretches: what has come through memory in one piece though it stands for several packets
//! ([`ferroce_wire::stretch`]).

use ferroce_control::Counter;
use ferroce_wire::{Stretch, stretch};

use super::RxState;
use super::counting::count_kind;
use super::run::{Frame, Run, taken};
use crate::datapath::qp_host::QpHost;
use crate::hca::Hca;
use crate::instrument::{CAPTURE, FAULTS};
use crate::memory::shared;
use crate::port::{Opened, Ring};
use crate::verbs::qp::Inner;

impl Hca {
    /// Handles a stretch from the inbox whose packets are of `mtu` bytes. One that is not the next
    /// thing that its queue pair expects, or at whose packets somebody looks, is taken apart.
    pub(super) fn process_stretch(&self, rx: &mut RxState, run: &Run<'_>, mtu: u16) {
        let counters = self.counters();
        let parsed = shared::parse(run.data).ok();
        let Some(stretch) = parsed.and_then(|packet| Stretch::new(packet, mtu)) else {
            counters.add(Counter::RxParseErrors, 1);
            return;
        };

        let bytes = (run.data.len() + stretch.more_bytes()) as u64;
        counters.add(Counter::RxPackets, stretch.packets().into());
        counters.add(Counter::RxBytes, bytes);
        if self.taps.has(FAULTS | CAPTURE)
            || run.datagram.is_marked()
            || !self.take_stretch(rx, run, &stretch, bytes)
        {
            self.take_apart(rx, run, &stretch);
        }
    }

    /// Gives a stretch to its queue pair. `false`: its packets are to be given to it instead.
    fn take_stretch(
        &self,
        rx: &mut RxState,
        run: &Run<'_>,
        stretch: &Stretch<'_>,
        bytes: u64,
    ) -> bool {
        let qps = self.qps.read();
        let keys = self.keys.read();
        let packet = stretch.whole();
        let Some(mut target) = self.steer(&qps, None, packet, run.now) else {
            return true;
        };

        let opened = Opened {
            transport: run.data,
            local: None,
        };
        let frame = Frame {
            packet,
            opened: &opened,
            bytes,
            id: 0,
        };
        if !self.admits(
            target.qp,
            &target.inner,
            packet,
            &run.arrival(&Ring, &frame),
        ) {
            return true;
        }

        let Inner {
            transport, path, ..
        } = &mut *target.inner;
        let mut host = QpHost::new(target.qp, &keys, path.as_deref(), run.now);
        if !transport.receive_stretch(run.now, stretch, &mut host) {
            return false;
        }

        count_kind(self.counters(), packet);
        let failure = host.failure();
        target.add_packets(stretch.packets().into(), bytes);
        taken(rx, &mut target, failure, &keys, run.now);
        target.leave(run.now);
        true
    }

    /// Handles the packets of a stretch one by one.
    #[cold]
    fn take_apart(&self, rx: &mut RxState, run: &Run<'_>, stretch: &Stretch<'_>) {
        let mut bytes = Vec::new();
        for i in 0..stretch.packets() {
            stretch::emit(&stretch.part(i), &mut bytes);
            let packet = Run {
                data: bytes.as_slice().into(),
                ..*run
            };
            self.handle(rx, &mut Ring, &packet);
        }
    }
}
