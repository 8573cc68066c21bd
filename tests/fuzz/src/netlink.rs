//! What programs send over `NETLINK_RDMA` sockets.

/// A socket under any sequence of datagrams. Returns whether something was answered by more than a
/// refusal.
pub fn run(input: &[u8]) -> bool {
    ferroced::fuzzing::netlink(input)
}
