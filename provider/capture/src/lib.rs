//! Captures of a device, for who reads them: what programs put into rings (`sources`) in the order
//! of time, and once (`item`), as pcapng (`pcapng`), in words (`text`) or as JSON (`json`). The
//! command `ferroce capture` and `ferroce_dv_capture_start(3)` are a [`Session`] each.
//!
//! What is read of rings is taken for bytes, and programs never wait for it. Nothing is printed
//! here.

mod error;
mod frame;
mod item;
pub mod json;
mod pcapng;
mod session;
mod sources;
mod text;
pub mod words;

pub use error::Error;
pub use item::{Filter, Item};
pub use pcapng::Pcapng;
pub use session::{Ended, Output, Session};
pub use text::Line;
