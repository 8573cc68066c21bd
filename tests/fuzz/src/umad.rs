//! What programs write to `/dev/infiniband/umadN`, and MADs from the wire on their way to them.

/// Agents and their exchanges under any sequence of these. Returns whether an agent got something.
pub fn run(input: &[u8]) -> bool {
    ferroced::fuzzing::umad(input)
}
