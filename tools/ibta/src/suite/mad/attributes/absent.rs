//! Attributes that a channel adapter without a subnet manager does not have.

use super::decided::UNSUPPORTED;
use crate::catalog::{Mutant, Test};
use crate::mad::{Answer, Smp, Tester, attribute_name};
use crate::run::{Outcome, Run, Stop};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{silent_to, status_of};
use ferroce_wire::smp::{attribute, capability, status};

pub(super) fn sm_info() -> Test {
    const MASK: &str = "v1c14-024.1.1#13.01";
    const DISABLED: &str = "v1c14-070#03";

    test(
        "C14_024_13_3",
        "C14-024",
        "SMInfo where no subnet manager is",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step("1", format!("SubnGet(PortInfo) to port {port}"));
                let mask = tester.port_info(port, 0)?.capability_mask;
                let (is_sm, disabled) = (
                    mask & capability::IS_SM != 0,
                    mask & capability::IS_SM_DISABLED != 0,
                );

                run.step("3", "IsSMDisabled is not set together with IsSM");
                run.check(DISABLED, !(is_sm && disabled), || {
                    format!("CapabilityMask is {mask:#x}")
                })?;
                run.step("4", "IsSM is 0");
                if is_sm {
                    return Err(Stop::NotApplicable(format!(
                        "a subnet manager works behind port {port}"
                    )));
                }

                run.step(
                    "5",
                    "SubnGet(SMInfo), SubnSet(SMInfo): the attribute is not supported, as IsSM says",
                );

                let get = Smp::get(attribute::SM_INFO);
                let answer = tester.must_answer(run, UNSUPPORTED, port, &get)?;
                run.check(MASK, answer.status() != 0, || {
                    "IsSM is 0, and SMInfo is answered".to_owned()
                })?;
                for request in [get, Smp::set(attribute::SM_INFO, [0; 64])] {
                    refuses(run, tester, port, &request)?;
                }
            }

            Ok(())
        },
    )
    .covers(&["C14-24.1.1", "C14-31", "C14-70"])
    .asserts([MASK, DISABLED, UNSUPPORTED])
    .mutant(Mutant::mad(
        "has-a-ghost-of-a-manager",
        "SMInfo is answered with status 0",
        MASK,
        || status_of(attribute::SM_INFO, 0),
    ))
    .mutant(Mutant::mad(
        "blames-the-value",
        "SMInfo is refused with the status of a value that is not legal",
        UNSUPPORTED,
        || status_of(attribute::SM_INFO, status::INVALID_VALUE),
    ))
    .mutant(Mutant::mad(
        "works-and-is-disabled",
        "IsSM and IsSMDisabled are both set",
        DISABLED,
        || {
            MadFaults::default().config(|config| {
                config.capability_mask |= capability::IS_SM | capability::IS_SM_DISABLED
            })
        },
    ))
}

/// An attribute that a channel adapter like this does not have.
pub(super) fn unsupported(id: &'static str, number: u16) -> Test {
    let name = attribute_name(number);
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            let mask = tester.port_info(port, 0)?.capability_mask;
            if number == attribute::NOTICE && mask & capability::IS_NOTICE_SUPPORTED != 0 {
                return Err(Stop::NotApplicable("Notice is supported".to_owned()));
            }
            for request in [Smp::get(number), Smp::set(number, [0; 64])] {
                run.step(
                    "1",
                    format!(
                        "method {:#x} of the attribute, to port {port}",
                        request.method
                    ),
                );
                refuses(run, tester, port, &request)?;
            }
        }

        Ok(())
    };

    test(
        id,
        "C14-024",
        format!("{name} is not an attribute of this channel adapter"),
        body,
    )
    .covers(&["C14-24.1.1", "C14-31"])
    .asserts([UNSUPPORTED])
    .mutant(Mutant::mad(
        "answers-it",
        "it is answered with status 0",
        UNSUPPORTED,
        move || status_of(number, 0),
    ))
    .mutant(Mutant::mad(
        "blames-the-method",
        "the status says that the method is not supported",
        UNSUPPORTED,
        move || status_of(number, status::UNSUPPORTED_METHOD),
    ))
    .mutant(Mutant::mad(
        "says-nothing",
        "there is no answer",
        UNSUPPORTED,
        move || silent_to(move |mad| mad.header().attribute == number),
    ))
}

/// The attribute is answered to be none.
fn refuses(run: &mut Run, tester: &mut Tester<'_>, port: u8, request: &Smp) -> Outcome<Answer> {
    tester.must_have_status(
        run,
        UNSUPPORTED,
        port,
        request,
        status::UNSUPPORTED_ATTRIBUTE,
    )
}
