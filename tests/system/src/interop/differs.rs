//! What rdma_rxe of Linux 6.1 does otherwise, and what is therefore not run between it and ferroce.

use super::field::Side;

/// A test of a C program that rdma_rxe does not pass, because it does something else than the specification or has something not.
pub struct Differs {
    /// Program and test.
    pub test: (&'static str, &'static str),
    /// The second process of the test, if it is that which rdma_rxe cannot be, or the first.
    pub server: Option<Side>,
    /// What it does.
    pub why: &'static str,
}

/// Where rdma_rxe of Linux 6.1 differs; said in `docs/conformance.md` with the clauses, and in the table of `docs/interop.md`.
pub const DIFFERS: &[Differs] = &[
    Differs {
        test: ("data", "send_with_invalidate"),
        server: Some(Side::Rxe),
        why: "rdma_rxe acknowledges a SEND whose key it could not invalidate",
    },
    Differs {
        test: ("unreliable", "longer_than_the_receive_request"),
        server: Some(Side::Rxe),
        why: "rdma_rxe ends the queue pair when a message of UC is too long",
    },
    Differs {
        test: ("datagrams", "controlled_qkey"),
        server: Some(Side::Ferroce),
        why: "rdma_rxe sends a Q_Key with the top bit set as it is",
    },
    Differs {
        test: ("datagrams", "longer_than_the_mtu"),
        server: Some(Side::Ferroce),
        why: "rdma_rxe completes a datagram that is too long well, and sends nothing (C10-93.1.1)",
    },
    Differs {
        test: ("refusals", "rem_inv_req_atomic_misaligned"),
        server: Some(Side::Ferroce),
        why: "rdma_rxe refuses to post an atomic operation at an odd address",
    },
];

/// Why perftest's `-R` is not run over a bad network where rdma_rxe serves; ferroce as the server waits a moment for the next listener.
pub const ASKS_TOO_SOON: &str = "perftest asks before its server listens again, and does not survive that the kernel refuses it at once";
/// Why XRC is not run.
pub const NO_XRC: &str = "rdma_rxe of this kernel has no XRC";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_is_documented() {
        let page = include_str!("../../../../docs/interop.md");
        let named = |test: &str, why: &str| {
            let row = page
                .lines()
                .find(|row| row.starts_with(&format!("| {test} |")));
            assert!(row.is_some_and(|row| row.contains(why)), "{test}: {why}");
        };
        for differs in DIFFERS {
            let (program, test) = differs.test;
            named(&format!("`{program}.c` `{test}`"), differs.why);
        }
        named("perftest with `-R` over a bad network", ASKS_TOO_SOON);
        named("XRC", NO_XRC);
    }
}
