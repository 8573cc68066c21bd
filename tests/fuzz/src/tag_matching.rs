//! The header by which the network says which tagged buffer a message is for.

/// A list of buffers under any sequence of operations and messages. Returns whether a message found
/// its buffer.
pub fn run(input: &[u8]) -> bool {
    ferroce_engine::fuzzing::tag_matching(input)
}
