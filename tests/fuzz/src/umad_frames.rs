//! What programs' connections to the server behind `/dev/infiniband/umadN` carry, from the first
//! byte on.

/// The server under any sequence of frames. Returns whether an ioctl or a write was carried out.
pub fn run(input: &[u8]) -> bool {
    ferroced::fuzzing::umad_frames(input)
}
