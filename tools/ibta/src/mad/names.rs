//! What the specification calls requests and attributes.

use super::Smp;
use ferroce_wire::smp::{CLASS_DIRECTED, CLASS_LID, attribute, method};

/// A request in the specification's words.
pub(super) fn name(request: &Smp) -> String {
    let method = match request.method {
        method::GET => "SubnGet".to_owned(),
        method::SET => "SubnSet".to_owned(),
        method::TRAP_REPRESS => "SubnTrapRepress".to_owned(),
        other => format!("method {other:#x}"),
    };

    let class = if request.dlid.is_some() {
        CLASS_LID
    } else {
        CLASS_DIRECTED
    };

    format!(
        "{method}({}) of class {class:#x}, modifier {:#x},",
        attribute_name(request.attribute),
        request.modifier
    )
}

/// What the specification calls an attribute.
pub fn attribute_name(number: u16) -> String {
    let known = match number {
        attribute::NOTICE => "Notice",
        attribute::NODE_DESCRIPTION => "NodeDescription",
        attribute::NODE_INFO => "NodeInfo",
        attribute::SWITCH_INFO => "SwitchInfo",
        attribute::GUID_INFO => "GUIDInfo",
        attribute::PORT_INFO => "PortInfo",
        attribute::P_KEY_TABLE => "P_KeyTable",
        attribute::SL_TO_VL => "SLtoVLMappingTable",
        attribute::VL_ARBITRATION => "VLArbitrationTable",
        attribute::LINEAR_FORWARDING => "LinearForwardingTable",
        attribute::RANDOM_FORWARDING => "RandomForwardingTable",
        attribute::MULTICAST_FORWARDING => "MulticastForwardingTable",
        attribute::SM_INFO => "SMInfo",
        attribute::VENDOR_DIAG => "VendorDiag",
        attribute::LED_INFO => "LedInfo",
        other => return format!("{other:#06x}"),
    };

    known.to_owned()
}
