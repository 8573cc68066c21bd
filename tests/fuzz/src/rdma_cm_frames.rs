//! What programs' connections to the server behind `/dev/infiniband/rdma_cm` carry, from the first
//! byte on.

/// The server under any sequence of frames. Returns whether a command was carried out.
pub fn run(input: &[u8]) -> bool {
    ferroced::fuzzing::rdma_cm_frames(input)
}
