//! A cable between two ports: where its ends are, how they find each other, and management
//! datagrams as packets on it.
//!
//! What a host, a switch and a tester have in common who speak over a cable. No sockets, and no
//! clock but the time that is passed in.

mod cable;
mod packets;
mod training;

pub use cable::Cable;
pub use packets::{Ends, Unfit, emit, read};
pub use training::{Change, FRAME, Frame, Training, is_frame};
