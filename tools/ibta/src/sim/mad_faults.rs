//! What a mutant of the management agents does: hooks around the node.
//!
//! A hook sees MADs on their way to the node or from it, and may look at the node as it is. Several
//! hooks of one kind follow each other. A state that two hooks share lies in an `Rc`.

use crate::protocol::{AsyncEvent, Reply};
use crate::rig::Envelope;
use ferroce_fabric::sma::{Node, NodeConfig};
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::smp::{self, Data, method};
use std::time::Duration;

/// A MAD on a cable.
#[derive(Clone, Copy, Debug)]
pub struct OnCable {
    /// The cable, from 1.
    pub port: u8,
    /// Its addresses and keys.
    pub envelope: Envelope,
    /// The MAD.
    pub mad: Mad,
}

impl OnCable {
    /// Its header.
    pub fn header(&self) -> MadHeader {
        MadHeader::parse(&self.mad).expect("a whole MAD")
    }

    /// Changes its header.
    pub fn edit_header(&mut self, edit: impl FnOnce(&mut MadHeader)) {
        let mut header = self.header();
        edit(&mut header);
        header.emit(&mut self.mad);
    }

    /// Whether it is a request (Get or Set) for an attribute of subnet management.
    pub fn asks(&self, method: u8, attribute: u16) -> bool {
        let header = self.header();
        self.envelope.qp == 0 && (header.method, header.attribute) == (method, attribute)
    }

    /// Whether it is an answer with an attribute of subnet management.
    pub fn answers(&self, attribute: u16) -> bool {
        self.asks(method::GET_RESP, attribute)
    }

    /// The attribute of an SMP.
    pub fn data(&self) -> &Data {
        smp::data(&self.mad)
    }

    /// The attribute of an SMP, to be changed.
    pub fn data_mut(&mut self) -> &mut Data {
        smp::data_mut(&mut self.mad)
    }
}

type RxHook = Box<dyn FnMut(&Node, OnCable) -> Vec<OnCable>>;
type TxHook = Box<dyn FnMut(&Node, OnCable) -> Vec<(Duration, OnCable)>>;

type ConfigHook = Box<dyn FnOnce(&mut NodeConfig)>;
type RawHook = Box<dyn FnMut(&mut Vec<u8>)>;
type EventHook = Box<dyn FnMut(AsyncEvent) -> Vec<AsyncEvent>>;
type RaiseHook = Box<dyn FnMut(&OnCable) -> Option<AsyncEvent>>;
type ReplyHook = Box<dyn FnMut(&mut Reply)>;
type LinkHook = Box<dyn FnMut(u8, bool) -> Vec<OnCable>>;

/// Hooks around the management agents.
#[derive(Default)]
pub struct MadFaults {
    config: Vec<ConfigHook>,
    raw: Vec<RawHook>,
    rx: Vec<RxHook>,
    tx: Vec<TxHook>,
    event: Vec<EventHook>,
    raise: Vec<RaiseHook>,
    reply: Vec<ReplyHook>,
    link: Vec<LinkHook>,
    clock: Option<f64>,
}

impl MadFaults {
    /// Makes the node from something else.
    pub fn config(mut self, hook: impl FnOnce(&mut NodeConfig) + 'static) -> MadFaults {
        self.config.push(Box::new(hook));
        self
    }

    /// Changes packets before the device looks at them.
    pub fn raw(mut self, hook: impl FnMut(&mut Vec<u8>) + 'static) -> MadFaults {
        self.raw.push(Box::new(hook));
        self
    }

    /// Rewrites, drops or doubles MADs before the node sees them.
    pub fn rx(mut self, hook: impl FnMut(&Node, OnCable) -> Vec<OnCable> + 'static) -> MadFaults {
        self.rx.push(Box::new(hook));
        self
    }

    /// Changes MADs before the node sees them.
    pub fn rx_edit(self, mut edit: impl FnMut(&Node, &mut OnCable) + 'static) -> MadFaults {
        self.rx(move |node, mut mad| {
            edit(node, &mut mad);
            vec![mad]
        })
    }

    /// The node does not see these.
    pub fn rx_drop(self, mut which: impl FnMut(&Node, &OnCable) -> bool + 'static) -> MadFaults {
        self.rx(move |node, mad| match which(node, &mad) {
            true => Vec::new(),
            false => vec![mad],
        })
    }

    /// Rewrites, drops, doubles or delays MADs that the node sends.
    pub fn tx(
        mut self,
        hook: impl FnMut(&Node, OnCable) -> Vec<(Duration, OnCable)> + 'static,
    ) -> MadFaults {
        self.tx.push(Box::new(hook));
        self
    }

    /// Changes MADs that the node sends.
    pub fn tx_edit(self, mut edit: impl FnMut(&Node, &mut OnCable) + 'static) -> MadFaults {
        self.tx(move |node, mut mad| {
            edit(node, &mut mad);
            vec![(Duration::ZERO, mad)]
        })
    }

    /// The node sends everything but these.
    pub fn tx_drop(self, mut which: impl FnMut(&Node, &OnCable) -> bool + 'static) -> MadFaults {
        self.tx(move |node, mad| match which(node, &mad) {
            true => Vec::new(),
            false => vec![(Duration::ZERO, mad)],
        })
    }

    /// Changes, suppresses or doubles events.
    pub fn event(mut self, hook: impl FnMut(AsyncEvent) -> Vec<AsyncEvent> + 'static) -> MadFaults {
        self.event.push(Box::new(hook));
        self
    }

    /// Raises events when MADs arrive.
    pub fn raise(
        mut self,
        hook: impl FnMut(&OnCable) -> Option<AsyncEvent> + 'static,
    ) -> MadFaults {
        self.raise.push(Box::new(hook));
        self
    }

    /// Changes what programs are told.
    pub fn reply(mut self, hook: impl FnMut(&mut Reply) + 'static) -> MadFaults {
        self.reply.push(Box::new(hook));
        self
    }

    /// Sends something when a cable is plugged in or pulled out.
    pub fn link(mut self, hook: impl FnMut(u8, bool) -> Vec<OnCable> + 'static) -> MadFaults {
        self.link.push(Box::new(hook));
        self
    }

    /// Lets the node's clock run faster (above 1) or slower.
    pub fn clock(mut self, speed: f64) -> MadFaults {
        self.clock = Some(speed);
        self
    }

    pub(super) fn speed(&self) -> f64 {
        self.clock.unwrap_or(1.0)
    }

    pub(super) fn configure(&mut self, config: &mut NodeConfig) {
        for hook in self.config.drain(..) {
            hook(config);
        }
    }

    pub(super) fn on_raw(&mut self, packet: &mut Vec<u8>) {
        for hook in &mut self.raw {
            hook(packet);
        }
    }

    pub(super) fn on_rx(&mut self, node: &Node, mad: OnCable) -> Vec<OnCable> {
        self.rx.iter_mut().fold(vec![mad], |mads, hook| {
            mads.into_iter().flat_map(|mad| hook(node, mad)).collect()
        })
    }

    pub(super) fn on_tx(&mut self, node: &Node, mad: OnCable) -> Vec<(Duration, OnCable)> {
        let first = vec![(Duration::ZERO, mad)];
        self.tx.iter_mut().fold(first, |mads, hook| {
            let mut next = Vec::new();
            for (delay, mad) in mads {
                next.extend(
                    hook(node, mad)
                        .into_iter()
                        .map(|(more, mad)| (delay + more, mad)),
                );
            }
            next
        })
    }

    pub(super) fn on_event(&mut self, event: AsyncEvent) -> Vec<AsyncEvent> {
        self.event.iter_mut().fold(vec![event], |events, hook| {
            events.into_iter().flat_map(hook).collect()
        })
    }

    pub(super) fn raised(&mut self, mad: &OnCable) -> Vec<AsyncEvent> {
        self.raise.iter_mut().filter_map(|hook| hook(mad)).collect()
    }

    pub(super) fn on_reply(&mut self, reply: &mut Reply) {
        for hook in &mut self.reply {
            hook(reply);
        }
    }

    pub(super) fn on_link(&mut self, port: u8, up: bool) -> Vec<OnCable> {
        self.link
            .iter_mut()
            .flat_map(|hook| hook(port, up))
            .collect()
    }
}
