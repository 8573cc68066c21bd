//! Attributes, methods and versions of performance management that there are not.

use super::ask;
use crate::catalog::{Mutant, Test};
use crate::mad::Tester;
use crate::run::Run;
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use crate::suite::mad::provoke::perf;
use ferroce_wire::mad::MadHeader;
use ferroce_wire::pma::attribute;
use ferroce_wire::smp::{method, status};

pub(super) fn refusals() -> Test {
    const ATTRIBUTE: &str = "S16_1_06#attribute";
    const METHOD: &str = "S16_1_06#method";
    const VERSION: &str = "S16_1_06#version";

    let has_no = |run: &mut Run, tester: &mut Tester<'_>, asked, number| {
        let mad = perf(tester, asked, number);
        let refused = status::UNSUPPORTED_ATTRIBUTE;
        ask(run, tester, ATTRIBUTE, 1, &mad, refused)
    };

    test(
        "S16_1_06",
        "16.1",
        "attributes, methods and versions that there are not are refused with the right status",
        move |run, tester| {
            for number in [0x0000, 0x0002, 0x0013, 0x7777] {
                run.step(
                    "1",
                    format!("PerformanceGet and Set of attribute {number:#06x}"),
                );
                for asked in [method::GET, method::SET] {
                    has_no(run, tester, asked, number)?;
                }
            }

            run.step(
                "2",
                "PerformanceSet(PortSamplesResult), which can only be read",
            );

            has_no(run, tester, method::SET, attribute::PORT_SAMPLES_RESULT)?;
            run.step("3", "methods that there are not");
            for asked in [0x03, 0x11, 0x7f] {
                let mad = perf(tester, asked, attribute::PORT_COUNTERS);
                ask(run, tester, METHOD, 1, &mad, status::UNSUPPORTED_METHOD)?;
            }

            run.step("4", "other versions");

            for (base, class) in [(2, 1), (1, 2), (0, 1), (1, 0)] {
                let mut mad = perf(tester, method::GET, attribute::CLASS_PORT_INFO);
                let header = MadHeader::parse(&mad).expect("a whole MAD");
                MadHeader {
                    base_version: base,
                    class_version: class,
                    ..header
                }
                .emit(&mut mad);
                ask(run, tester, VERSION, 1, &mad, status::BAD_VERSION)?;
            }

            Ok(())
        },
    )
    .covers(&["16.1", "C13-24"])
    .asserts([ATTRIBUTE, METHOD, VERSION])
    .mutant(Mutant::mad(
        "always-fine",
        "unknown attributes have status 0",
        ATTRIBUTE,
        || refusal_becomes(status::UNSUPPORTED_ATTRIBUTE, 0),
    ))
    .mutant(Mutant::mad(
        "any-method-will-do",
        "unknown methods have status 0",
        METHOD,
        || refusal_becomes(status::UNSUPPORTED_METHOD, 0),
    ))
    .mutant(Mutant::mad(
        "any-version-will-do",
        "other versions have status 0",
        VERSION,
        || refusal_becomes(status::BAD_VERSION, 0),
    ))
}

fn refusal_becomes(from: u16, to: u16) -> MadFaults {
    MadFaults::default().tx_edit(move |_, mad| {
        if mad.envelope.qp == 1 && mad.header().status == from {
            mad.edit_header(|header| header.status = to);
        }
    })
}
