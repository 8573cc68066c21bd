//! Trap 256: a wrong M_Key, in a directed-route SMP or a LID-routed one.

use super::{common, is_trap, mute, next, tells};
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, Trap, lid_of};
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use ferroce_wire::smp::{PERMISSIVE_LID, attribute, method, trap};

const DUT: u64 = 0x1b7a_0256_0000_0001;
const OTHER: u64 = 0x1b7a_0256_0000_0002;
const SENT: &str = "s14.2.5.1#256.sent";
const NOTICE: &str = "s14.2.5.1#256.notice";
const WHO: &str = "s14.2.5.1#256.who";
const WHAT: &str = "s14.2.5.1#256.what";
const ROUTE: &str = "s14.2.5.1#256.route";

pub(super) fn bad_m_key(id: &'static str, directed: bool) -> Test {
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            tester.set_m_key(port, DUT, 2)?;
            let mut request = Smp::set(attribute::P_KEY_TABLE, [0; 64])
                .about(3)
                .key(OTHER);
            if !directed {
                request = request.to_lid(lid_of(port));
            }

            run.step(
                "1",
                format!("SubnSet(P_KeyTable), block 3, with another M_Key, to port {port}"),
            );

            tester.send_mad(port, &request)?;

            run.step("2", "trap 256 comes");
            let trap = next(run, tester, port, SENT, trap::BAD_M_KEY)?;
            common(run, NOTICE, port, &trap, 2)?;
            says_all(run, port, &trap, directed)?;
            tester.repress(port, &trap)?;
            tester.set_m_key(port, 0, 0)?;
        }

        Ok(())
    };

    let way = if directed {
        "directed-route"
    } else {
        "LID-routed"
    };

    test(
        id,
        "14.2.5.1",
        format!("trap 256 tells of a wrong M_Key in a {way} SMP"),
        body,
    )
    .covers(&["14.2.5.1"])
    .asserts([SENT, NOTICE, WHO, WHAT, ROUTE])
    .mutant(Mutant::mad(
        "keeps-it-secret",
        "no trap is sent",
        SENT,
        || mute(trap::BAD_M_KEY),
    ))
    .mutant(Mutant::mad(
        "shows-no-key",
        "the M_Key in the notice is not the one that was shown",
        WHAT,
        || tells(trap::BAD_M_KEY, 21, 0xee),
    ))
    .mutant(Mutant::mad(
        "wrong-witness",
        "the LID in the notice is not that of the requester",
        WHO,
        || tells(trap::BAD_M_KEY, 3, 0x33),
    ))
    .mutant(Mutant::mad(
        "wrong-way",
        "the hop count in the notice is wrong",
        ROUTE,
        || tells(trap::BAD_M_KEY, 23, 0x82),
    ))
    .mutant(Mutant::mad(
        "anonymous",
        "the issuer's LID is missing",
        NOTICE,
        || {
            MadFaults::default().tx_edit(|_, mad| {
                if is_trap(mad, trap::BAD_M_KEY) {
                    mad.mad[64 + 6..64 + 8].fill(0);
                }
            })
        },
    ))
}

/// Steps 3 to 5: the details of the notice.
fn says_all(run: &mut Run, port: u8, trap: &Trap, directed: bool) -> Outcome {
    run.step("3", "it says who");
    let (lid, route) = if directed {
        (PERMISSIVE_LID, PERMISSIVE_LID)
    } else {
        (SM_LID, 0)
    };

    run.check_eq(
        WHO,
        "LIDADDR and DRSLID",
        (trap.u16_at(2), trap.u16_at(4)),
        (lid, route),
    )?;

    run.step("4", "it says what");
    let seen = (
        trap.details[6],
        trap.u16_at(8),
        trap.u32_at(10),
        trap.u64_at(14),
    );

    run.check_eq(
        WHAT,
        "method, attribute, modifier, M_Key",
        seen,
        (method::SET, attribute::P_KEY_TABLE, 3, OTHER),
    )?;

    run.step("5", "it says by which way");
    let due = if directed { (0x81, port) } else { (0, 0) };
    run.check_eq(
        ROUTE,
        "DRNotice and hop count, first port of the return path",
        (trap.details[23], trap.details[24]),
        due,
    )
}
