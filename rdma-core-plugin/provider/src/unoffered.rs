//! What this device does not have and libibverbs' defaults would refuse without setting `errno`:
//! enhanced connection establishment (ECE) and rate limits.

use crate::guard::{Errno, Failure};
use ferroce_cabi::*;
use libc::c_int;

pub(crate) unsafe extern "C" fn query_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    c_int::failure(Errno(libc::EOPNOTSUPP))
}

pub(crate) unsafe extern "C" fn set_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    c_int::failure(Errno(libc::EOPNOTSUPP))
}

pub(crate) unsafe extern "C" fn modify_qp_rate_limit(
    _qp: *mut ibv_qp,
    _attr: *mut ibv_qp_rate_limit_attr,
) -> c_int {
    c_int::failure(Errno(libc::EOPNOTSUPP))
}
