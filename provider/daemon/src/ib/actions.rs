//! What the node wants done, kept until the host has its hands free. It is carried out in `mod.rs`.

use ferroce_fabric::sma::{Envelope, LinkCommand, Output, PortEvent};
use ferroce_wire::mad::Mad;

/// What the node wants done.
#[derive(Debug)]
pub(super) enum Action {
    Send(u8, Envelope, Mad),
    Deliver(u8, Envelope, Mad),
    Event(u8, PortEvent),
    Link(u8, LinkCommand),
}

#[derive(Debug, Default)]
pub(super) struct Actions(pub(super) Vec<Action>);

impl Output for Actions {
    fn send(&mut self, port: u8, to: Envelope, smp: &Mad) {
        self.0.push(Action::Send(port, to, *smp));
    }

    fn deliver(&mut self, port: u8, from: Envelope, smp: &Mad) {
        self.0.push(Action::Deliver(port, from, *smp));
    }

    fn event(&mut self, port: u8, event: PortEvent) {
        self.0.push(Action::Event(port, event));
    }

    fn link(&mut self, port: u8, command: LinkCommand) {
        self.0.push(Action::Link(port, command));
    }
}
