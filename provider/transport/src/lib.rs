//! The transport services RC, XRC, UC and UD: requester, responder and completer as one state
//! machine.
//!
//! A [`Qp`] takes packets, work requests and the time, and through [`Host`] and [`Sink`] says what
//! to place in memory, which completions to raise and what to send. It does no I/O, reads no clock,
//! starts no thread and never touches user memory; whoever hosts it carries its instructions out.
//!
//! A caller's loop is: [`Qp::receive`] (for UD [`Qp::receive_datagram`]) for every packet that
//! came, [`Qp::handle_timeout`] when [`Qp::next_timeout`] has passed, and after either of them, and
//! after posting, [`Qp::transmit`] until it returns `false`.
#![forbid(unsafe_code)]

mod answers;
#[allow(missing_docs)] // the attributes' names are the verbs' own
mod attr;
mod board;
mod budget;
mod completer;
pub mod congestion;
mod doubt;
mod early;
mod error;
mod execute;
mod filler;
mod guided;
mod host;
mod injected;
mod local;
mod make;
mod marked;
mod modify;
mod notification;
mod opts;
mod packets;
mod peer;
mod ping_pong;
mod posting;
mod qp;
mod recv_queue;
mod reordering;
mod replays;
mod requester;
mod resources;
mod respond;
mod responder;
mod ring;
mod room;
mod scorekeeping;
mod selective;
mod send_queue;
mod silence;
mod standing;
pub mod state;
mod stretched;
mod timer;
mod trace;
mod tuning;
mod turn;
mod types;
mod uc;
mod ud;
mod unreliable;
mod xrc;

pub use attr::*;
pub use early::EarlyMemory;
pub use error::{ModifyError, PostError};
pub use host::*;
pub use injected::Injected;
pub use opts::TransmitOpts;
pub use qp::Qp;
pub use resources::MAX_RD_ATOMIC;
pub use send_queue::MAX_MESSAGE;
pub use standing::Standing;
pub use state::QpType;
pub use types::*;

pub use ferroce_wire::time::{AtomicTime, Duration, Time};
