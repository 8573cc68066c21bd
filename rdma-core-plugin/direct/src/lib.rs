//! `libferroce.so`: what a program under test asks of a ferroce device beyond verbs, as
//! `libmlx5.so` has `mlx5dv` and `libefa.so` has `efadv`. In C it is `<ferroce_dv.h>`, whose
//! functions are in [`c`]; in Rust this crate, `use ferroce::{Device, QueuePair}`.
//!
//! The device itself is in another shared object, the provider that libibverbs loads. It is found
//! by the context that a program has (`provider`), and does what is about queue pairs; faults and
//! captures are asked of the daemon, as the command `ferroce` does. So this library is linked with
//! nothing but the C library, and answers that a device is none of ferroce's where that is so.
//!
//! Nothing here prints, and no panic leaves it.

pub mod c;
mod capture;
mod device;
mod failure;
mod faults;
mod provider;
mod queue_pair;

pub use capture::{Capture, Captured};
pub use device::{Completions, Device};
pub use failure::Failure;
pub use faults::Fault;
pub use queue_pair::{Latencies, QueuePair};

/// A completion that was made.
pub use ferroce_cabi::direct::ferroce_dv_completion as Completion;
/// What a device says of itself.
pub use ferroce_cabi::direct::ferroce_dv_device_attr as DeviceAttr;
/// What a queue pair is from inside.
pub use ferroce_cabi::direct::ferroce_dv_qp_attr as QpAttr;
