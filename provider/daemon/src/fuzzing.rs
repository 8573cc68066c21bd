//! The servers behind `/dev/infiniband` without their sockets, for `tests/fuzz`: what programs write to them, and MADs from the wire.
//! The same input does the same, but for the numbers that are drawn at random.

pub use crate::ucma::fuzzing::rdma_cm;
pub use crate::umad::fuzzing::umad;

/// The steps of an input: a byte that says what, one that says of what, one of length, and so many bytes.
pub(crate) fn steps(mut input: &[u8]) -> impl Iterator<Item = (u8, u8, &[u8])> {
    std::iter::from_fn(move || {
        let [what, which, len, rest @ ..] = input else {
            return None;
        };
        let (bytes, rest) = rest.split_at(rest.len().min((*len).into()));
        input = rest;
        Some((*what, *which, bytes))
    })
}
