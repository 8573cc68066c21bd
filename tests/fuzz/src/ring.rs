//! What another process of the device may write to the memory that both have.

/// A receiver whose memory another writes to at will. Returns whether a record was taken.
pub fn run(input: &[u8]) -> bool {
    ferroce_engine::fuzzing::ring(input)
}
