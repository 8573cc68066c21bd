//! What programs and the CM say to each other, in the terms of the other.

use ferroce_cabi::ucma::rdma_ucm_ece;
use ferroce_fabric::cm::CmError;
use ferroce_wire::cm::Ece;
use rustix::io::Errno;

/// 4.096 µs · 2^24 = 69 s, which a program may take for its answer.
pub(super) const SERVICE_TIMEOUT: u8 = 24;

/// What a program says of enhanced connection establishment, as the wire has it.
pub(super) fn to_wire(ece: rdma_ucm_ece) -> Ece {
    Ece {
        vendor_id: ece.vendor_id,
        attributes: ece.attr_mod,
    }
}

/// The other way round.
pub(super) fn from_wire(ece: Ece) -> rdma_ucm_ece {
    rdma_ucm_ece {
        vendor_id: ece.vendor_id,
        attr_mod: ece.attributes,
    }
}

/// The errno of a refusal.
pub(super) fn errno(error: CmError) -> Errno {
    match error {
        CmError::InUse => Errno::ADDRINUSE,
        CmError::Limit => Errno::NOMEM,
        CmError::NoSuchId | CmError::WrongState | CmError::TooLong | CmError::BadParameter => {
            Errno::INVAL
        }
    }
}
