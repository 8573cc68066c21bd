//! What a mutant does: hooks around the device's state machine. The device itself knows nothing of
//! them.
//!
//! A hook that is not set changes nothing. Hooks are made anew for each run and may keep a state of
//! their own.

use crate::packet::TxPacket;
use crate::protocol::{Command, Completion, SendRequest, Side};
use std::time::Duration;

/// Gets a packet, gives what goes on in its place, each after a delay.
pub(super) type PacketHook = Box<dyn FnMut(TxPacket) -> Vec<(Duration, TxPacket)>>;

/// Gets an address, the bytes there and those to place; gives those that are there afterwards, as
/// many.
pub(super) type PlaceHook = Box<dyn FnMut(u64, &[u8], &[u8]) -> Vec<u8>>;

/// Hooks around the transport.
#[derive(Default)]
pub struct Faults {
    /// Packets before the device sees them.
    pub on_rx: Option<PacketHook>,
    /// Packets that the device sends.
    pub on_tx: Option<PacketHook>,
    /// Completions before the program sees them.
    #[allow(clippy::type_complexity)]
    pub on_completion: Option<Box<dyn FnMut(Side, Completion) -> Vec<Completion>>>,
    /// Send requests as they are posted: send completions that are raised at once.
    #[allow(clippy::type_complexity)]
    pub on_post: Option<Box<dyn FnMut(u32, &SendRequest) -> Vec<Completion>>>,
    /// Bytes that the device places in memory.
    pub on_place: Option<PlaceHook>,
    /// Commands before they are carried out.
    pub on_command: Option<Box<dyn FnMut(Command) -> Command>>,
    /// The only entry of the port's P_Key table.
    pub p_key: Option<u16>,
    /// The device's timers run so much faster; 1 is right.
    pub clock: Option<f64>,
}

impl Faults {
    /// Rewrites, drops, doubles or delays packets before the device sees them.
    pub fn rx(
        mut self,
        hook: impl FnMut(TxPacket) -> Vec<(Duration, TxPacket)> + 'static,
    ) -> Faults {
        self.on_rx = Some(Box::new(hook));
        self
    }

    /// Rewrites, drops, doubles or delays packets that the device sends.
    pub fn tx(
        mut self,
        hook: impl FnMut(TxPacket) -> Vec<(Duration, TxPacket)> + 'static,
    ) -> Faults {
        self.on_tx = Some(Box::new(hook));
        self
    }

    /// Changes one field of packets that the device sends.
    pub fn tx_edit(self, mut edit: impl FnMut(&mut TxPacket) + 'static) -> Faults {
        self.tx(move |mut packet| {
            edit(&mut packet);
            vec![(Duration::ZERO, packet)]
        })
    }

    /// Changes one field of packets before the device sees them.
    pub fn rx_edit(self, mut edit: impl FnMut(&mut TxPacket) + 'static) -> Faults {
        self.rx(move |mut packet| {
            edit(&mut packet);
            vec![(Duration::ZERO, packet)]
        })
    }

    /// Drops packets that the device sends.
    pub fn tx_drop(self, mut which: impl FnMut(&TxPacket) -> bool + 'static) -> Faults {
        self.tx(move |packet| match which(&packet) {
            true => Vec::new(),
            false => vec![(Duration::ZERO, packet)],
        })
    }

    /// Drops packets before the device sees them.
    pub fn rx_drop(self, mut which: impl FnMut(&TxPacket) -> bool + 'static) -> Faults {
        self.rx(move |packet| match which(&packet) {
            true => Vec::new(),
            false => vec![(Duration::ZERO, packet)],
        })
    }

    /// Changes, suppresses or doubles completions.
    pub fn completion(
        mut self,
        hook: impl FnMut(Side, Completion) -> Vec<Completion> + 'static,
    ) -> Faults {
        self.on_completion = Some(Box::new(hook));
        self
    }

    /// Raises send completions when requests are posted.
    pub fn post(
        mut self,
        hook: impl FnMut(u32, &SendRequest) -> Vec<Completion> + 'static,
    ) -> Faults {
        self.on_post = Some(Box::new(hook));
        self
    }

    /// Changes what is placed in memory.
    pub fn place(mut self, hook: impl FnMut(u64, &[u8], &[u8]) -> Vec<u8> + 'static) -> Faults {
        self.on_place = Some(Box::new(hook));
        self
    }

    /// Changes commands.
    pub fn command(mut self, hook: impl FnMut(Command) -> Command + 'static) -> Faults {
        self.on_command = Some(Box::new(hook));
        self
    }

    /// Gives the port another P_Key, which the device's packets do not have by that.
    pub fn p_key(mut self, p_key: u16) -> Faults {
        self.p_key = Some(p_key);
        self
    }

    /// Lets the device's timers run faster (above 1) or slower.
    pub fn clock(mut self, speed: f64) -> Faults {
        self.clock = Some(speed);
        self
    }
}
