//! Devices that check the key of one port only, do not count, or do not answer who knows both keys.

use super::{ANSWERED, BOTH, CHECKED, GET_SILENT, REQUIRED, RESPONSE, SET_SILENT};
use crate::catalog::Mutant;
use crate::sim::{MadFaults, OnCable};
use crate::suite::mad::mutants::{self, answers_without_key, knows_key, named_port};
use ferroce_fabric::sma::Node;
use ferroce_wire::smp::{attribute, method, status};

/// Whether it is a request or answer with this method about another port than its own.
fn about_another(mad: &OnCable, method: u8) -> bool {
    let header = mad.header();
    header.attribute == attribute::PORT_INFO
        && header.method == method
        && named_port(mad) != mad.port
}

/// Devices that look at one key only, or do not count.
pub(super) fn of_keys() -> Vec<Mutant> {
    let receiving = move |asked: u8| {
        move || {
            answers_without_key(move |node: &Node, mad: &OnCable| {
                about_another(mad, asked) && knows_key(node, mad, mad.port)
            })
        }
    };

    let named = move |asked: u8| {
        move || {
            answers_without_key(move |node: &Node, mad: &OnCable| {
                about_another(mad, asked) && knows_key(node, mad, named_port(mad))
            })
        }
    };

    vec![
        Mutant::mad(
            "set-looks-at-the-named-port-only",
            "a SubnSet about another port needs the key of that port only",
            SET_SILENT,
            named(method::SET),
        ),
        Mutant::mad(
            "set-looks-at-the-receiving-port-only",
            "a SubnSet about another port needs the key of the port that receives it only",
            SET_SILENT,
            receiving(method::SET),
        ),
        Mutant::mad(
            "get-looks-at-the-named-port-only",
            "a SubnGet about another port needs the key of that port only",
            GET_SILENT,
            named(method::GET),
        ),
        Mutant::mad(
            "get-looks-at-the-receiving-port-only",
            "a SubnGet about another port needs the key of the port that receives it only",
            GET_SILENT,
            receiving(method::GET),
        ),
        Mutant::mad(
            "named-port-does-not-count",
            "M_KeyViolations of the port that is named stays 0",
            CHECKED,
            uncounted(true),
        ),
        Mutant::mad(
            "receiving-port-does-not-count",
            "M_KeyViolations of the port that receives a request about another stays 0",
            CHECKED,
            uncounted(false),
        ),
    ]
}

/// Devices that refuse, or answer wrongly, what has both keys.
pub(super) fn of_answers() -> Vec<Mutant> {
    vec![
        Mutant::mad(
            "silent-about-other-ports",
            "requests about another port are not answered, with both keys neither",
            ANSWERED,
            move || MadFaults::default().rx_drop(move |_, mad| about_another(mad, method::GET)),
        ),
        Mutant::mad(
            "knows-its-own-port-only",
            "requests about another port are answered with status 7",
            REQUIRED,
            move || {
                MadFaults::default().tx_edit(move |_, mad| {
                    if about_another(mad, method::GET_RESP) {
                        mutants::set_status(mad, status::INVALID_VALUE);
                    }
                })
            },
        ),
        Mutant::mad(
            "both-keys-do-not-help",
            "of the requests about another port that have both keys the first alone is answered",
            BOTH,
            move || {
                let mut answered = false;
                MadFaults::default().rx_drop(move |_, mad| {
                    about_another(mad, method::GET) && std::mem::replace(&mut answered, true)
                })
            },
        ),
        Mutant::mad(
            "forgets-what-it-was-asked",
            "AttributeModifier is 0 in the answer to a request about another port",
            RESPONSE,
            move || {
                MadFaults::default().tx_edit(move |_, mad| {
                    if about_another(mad, method::GET_RESP) {
                        mad.edit_header(|header| header.modifier = 0);
                    }
                })
            },
        ),
    ]
}

/// A device that shows no violations to a port that asks about another, or none to one that asks
/// about itself.
fn uncounted(by_another: bool) -> impl Fn() -> MadFaults {
    move || {
        mutants::shows(attribute::PORT_INFO, move |_, mad, data| {
            if (named_port(mad) != mad.port) == by_another {
                mutants::field("m_key_violations").store(data, 0);
            }
        })
    }
}
