//! What makes a port complain, and MADs to queue pair 1.

use crate::mad::{SM_LID, Tester, lid_of};
use crate::rig::Envelope;
use crate::run::Outcome;
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::pma;
use ferroce_wire::smp::method;

/// A P_Key that no table has.
pub(super) const BAD_P_KEY: u16 = 0x9123;
/// A Q_Key that queue pair 1 does not have.
pub(super) const BAD_Q_KEY: u32 = 0x1234_5678;

/// A request of performance management.
pub(super) fn perf(tester: &mut Tester<'_>, asked: u8, attribute: u16) -> Mad {
    let mut mad: Mad = [0; LEN];
    MadHeader {
        base_version: 1,
        class: pma::CLASS,
        class_version: pma::CLASS_VERSION,
        method: asked,
        tid: tester.next_tid(),
        attribute,
        ..MadHeader::default()
    }
    .emit(&mut mad);
    mad
}

/// A MAD to queue pair 1 with other keys than it should have.
pub(super) fn with_keys(
    tester: &mut Tester<'_>,
    port: u8,
    keys: impl FnOnce(&mut Envelope),
) -> Outcome<crate::mad::Sent> {
    let mad = perf(tester, method::GET, pma::attribute::CLASS_PORT_INFO);
    let mut to = Envelope::gmp(SM_LID, lid_of(port));
    keys(&mut to);
    tester.send_as_is(port, to, &mad)
}

/// Raises trap 257.
pub(super) fn bad_p_key(tester: &mut Tester<'_>, port: u8) -> Outcome {
    with_keys(tester, port, |to| to.pkey = BAD_P_KEY)?;
    Ok(())
}

/// Raises trap 258.
pub(super) fn bad_q_key(tester: &mut Tester<'_>, port: u8) -> Outcome {
    with_keys(tester, port, |to| to.qkey = BAD_Q_KEY)?;
    Ok(())
}
