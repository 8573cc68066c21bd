//! Assertions that more than one test of attributes decides.

pub(super) const NO_ERROR: &str = "v1c13-024#01";
pub(super) const INVALID: &str = "v1c13-024#07";
pub(super) const RESPONSE: &str = "v1c14-030#01";
pub(super) const UNSUPPORTED: &str = "v1c14-031#01";
