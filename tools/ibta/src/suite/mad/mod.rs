//! Tests of the management agents of a channel adapter, a module for each subject.

mod arbitration;
mod attributes;
pub(in crate::suite) mod both_keys;
pub(in crate::suite) mod case;
mod directed;
pub(in crate::suite) mod events;
mod lanes;
mod lease;
mod m_key;
mod methods;
pub(in crate::suite) mod mutants;
mod packets;
mod pma;
mod port_info;
mod provoke;
mod read_only;
pub(in crate::suite) mod reregister;
mod states;
mod trap_rules;
mod trap_states;
mod traps;
mod violations;

use crate::Test;

/// All of them.
pub fn tests() -> Vec<Test> {
    let subjects: &[fn() -> Vec<Test>] = &[
        attributes::tests,
        both_keys::tests,
        directed::tests,
        events::tests,
        lanes::tests,
        lease::tests,
        m_key::tests,
        methods::tests,
        packets::tests,
        pma::tests,
        port_info::tests,
        read_only::tests,
        reregister::tests,
        states::tests,
        trap_rules::tests,
        trap_states::tests,
        traps::tests,
        violations::tests,
    ];

    subjects.iter().flat_map(|tests| tests()).collect()
}
