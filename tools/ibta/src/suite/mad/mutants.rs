//! Mutants that several tests use.

use crate::sim::{MadFaults, OnCable};
use ferroce_fabric::sma::{Node, Port};
use ferroce_wire::bits::Field;
use ferroce_wire::smp::{self, Data, PortInfo, attribute, method};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The port that a request for PortInfo is about.
pub(in crate::suite) fn named_port(mad: &OnCable) -> u8 {
    match mad.header().modifier & 0x7fff_ffff {
        0 => mad.port,
        port => port as u8,
    }
}

/// The M_Key of a port.
pub(in crate::suite) fn key_of(node: &Node, port: u8) -> u64 {
    node.port(port).map_or(0, |port| port.info().m_key)
}

/// Whether a request's key is that of a port, or the port has none.
pub(in crate::suite) fn knows_key(node: &Node, mad: &OnCable, port: u8) -> bool {
    let key = key_of(node, port);
    key == 0 || key == smp::m_key(&mad.mad)
}

/// Answers these requests whatever their key.
pub(in crate::suite) fn answers_without_key(
    which: impl Fn(&Node, &OnCable) -> bool + 'static,
) -> MadFaults {
    // The node looks at the port that receives a request and at the one that it is about. So it is
    // shown the request at the latter, with the key that it has there, and the answer is brought to
    // where it is waited for.
    let moved: Rc<RefCell<HashMap<u64, u8>>> = Rc::default();
    let brought = moved.clone();
    MadFaults::default()
        .rx_edit(move |node, mad| {
            let is_smp = mad.envelope.qp == 0;
            if is_smp && which(node, mad) {
                moved.borrow_mut().insert(mad.header().tid, mad.port);
                if mad.header().attribute == attribute::PORT_INFO {
                    mad.port = named_port(mad);
                }
                smp::set_m_key(&mut mad.mad, key_of(node, mad.port));
            }
        })
        .tx_edit(move |_, mad| {
            if let Some(port) = brought.borrow_mut().remove(&mad.header().tid) {
                mad.port = port;
            }
        })
}

/// Requests for these are not answered.
pub(in crate::suite) fn silent_to(which: impl Fn(&OnCable) -> bool + 'static) -> MadFaults {
    MadFaults::default().rx_drop(move |_, mad| mad.envelope.qp == 0 && which(mad))
}

/// Answers with this attribute have this status, the direction bit aside.
pub(in crate::suite) fn status_of(attribute: u16, status: u16) -> MadFaults {
    MadFaults::default().tx_edit(move |_, mad| {
        if mad.answers(attribute) {
            set_status(mad, status);
        }
    })
}

/// Gives an answer a status; the direction bit stays.
pub(in crate::suite) fn set_status(mad: &mut OnCable, status: u16) {
    mad.edit_header(|header| header.status = header.status & smp::DIRECTION | status);
}

/// Changes the attribute of answers.
pub(in crate::suite) fn shows(
    attribute: u16,
    mut edit: impl FnMut(&Node, &OnCable, &mut Data) + 'static,
) -> MadFaults {
    MadFaults::default().tx_edit(move |node, mad| {
        if mad.answers(attribute) {
            let mut data = *mad.data();
            edit(node, mad, &mut data);
            *mad.data_mut() = data;
        }
    })
}

/// Shows a component of PortInfo with this value, whatever it is.
pub(in crate::suite) fn shows_as(name: &'static str, value: u128) -> MadFaults {
    shows(attribute::PORT_INFO, move |_, _, data| {
        field(name).store(data, value)
    })
}

/// Changes the answers to these requests.
pub(in crate::suite) fn answers_to(
    which: impl Fn(&Node, &OnCable) -> bool + 'static,
    edit: impl Fn(&mut OnCable) + 'static,
) -> MadFaults {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let tids = asked.clone();
    MadFaults::default()
        .rx_edit(move |node, mad| {
            if which(node, mad) {
                tids.borrow_mut().push(mad.header().tid);
            }
        })
        .tx_edit(move |_, mad| {
            if asked.borrow().contains(&mad.header().tid) {
                edit(mad);
            }
        })
}

/// Changes the attribute of Sets before the node sees them.
pub(in crate::suite) fn takes(
    attribute: u16,
    mut edit: impl FnMut(&Node, &OnCable, &mut Data) + 'static,
) -> MadFaults {
    MadFaults::default().rx_edit(move |node, mad| {
        if mad.asks(method::SET, attribute) {
            let mut data = *mad.data();
            edit(node, mad, &mut data);
            *mad.data_mut() = data;
        }
    })
}

/// PortInfo of the port that a request is about, as it is.
pub(in crate::suite) fn current(node: &Node, mad: &OnCable) -> PortInfo {
    node.port(named_port(mad))
        .map(Port::info)
        .copied()
        .unwrap_or_default()
}

/// One component of an attribute's current value.
pub(in crate::suite) fn component(info: &PortInfo, field: &Field) -> u128 {
    let mut data = [0; smp::DATA_LEN];
    info.emit(&mut data);
    field.load(&data)
}

/// A Set of PortInfo leaves this component as it is, whatever it says; `when` looks at the value
/// that is asked for.
pub(in crate::suite) fn ignores(
    field: &'static Field,
    when: impl Fn(u128) -> bool + 'static,
) -> MadFaults {
    takes(attribute::PORT_INFO, move |node, mad, data| {
        let now = component(&current(node, mad), field);
        // A port must have taken its first LIDs, or nothing can be set at all.
        let first = now == 0 && matches!(field.name, "lid" | "master_sm_lid");
        if when(field.load(data)) && !first {
            field.store(data, now);
        }
    })
}

/// What is written into a component of PortInfo is shown from then on.
pub(in crate::suite) fn writable(field: &'static Field) -> MadFaults {
    let written: Rc<RefCell<HashMap<u8, u128>>> = Rc::default();
    let shown = written.clone();
    takes(attribute::PORT_INFO, move |_, mad, data| {
        written
            .borrow_mut()
            .insert(named_port(mad), field.load(data));
    })
    .tx_edit(move |_, mad| {
        if mad.answers(attribute::PORT_INFO)
            && let Some(value) = shown.borrow().get(&named_port(mad))
        {
            field.store(mad.data_mut(), *value);
        }
    })
}

/// What is written into the first GUID of GUIDInfo is shown from then on.
pub(in crate::suite) fn first_guid_is_written() -> MadFaults {
    let written: Rc<RefCell<Option<[u8; 8]>>> = Rc::default();
    let shown = written.clone();
    takes(attribute::GUID_INFO, move |_, mad, data| {
        if mad.header().modifier == 0 {
            *written.borrow_mut() = data.first_chunk().copied();
        }
    })
    .tx_edit(move |_, mad| {
        if mad.answers(attribute::GUID_INFO)
            && mad.header().modifier == 0
            && let Some(guid) = *shown.borrow()
        {
            mad.data_mut()[..8].copy_from_slice(&guid);
        }
    })
}

/// A component of PortInfo by name.
pub(in crate::suite) fn field(name: &str) -> &'static Field {
    let known = PortInfo::FIELDS.iter().find(|field| field.name == name);
    known.expect("PortInfo has it")
}
