//! The servers behind `/dev/infiniband` and `NETLINK_RDMA` without their doors, for `tests/fuzz`:
//! what programs write to them, and MADs from the wire. The same input does the same, but for the
//! numbers that are drawn at random.
//!
//! Each returns whether something of the input got past the first check.

pub(crate) mod inputs;

pub use crate::nldev::fuzzing::netlink;
pub use crate::ucma::frames::rdma_cm_frames;
pub use crate::ucma::fuzzing::rdma_cm;
pub use crate::umad::frames::umad_frames;
pub use crate::umad::fuzzing::umad;
