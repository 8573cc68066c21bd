//! What another process of the device may write to the memory that both have.

/// A receiver whose memory another writes to at will.
pub fn run(input: &[u8]) {
    ferroce_engine::fuzzing::ring(input);
}
