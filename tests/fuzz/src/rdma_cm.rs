//! What programs write to `/dev/infiniband/rdma_cm`, with what they say about it.

/// The server behind it under any sequence of commands. Returns whether one was carried out.
pub fn run(input: &[u8]) -> bool {
    ferroced::fuzzing::rdma_cm(input)
}
