//! Management datagrams in words.

use crate::mad::attribute_name;
use ferroce_wire::mad::{LEN, Mad, MadHeader, method};
use ferroce_wire::{pma, smp};

/// The fields of a MAD that its class has in front of the attribute.
pub(super) fn headers(mad: &Mad, header: &MadHeader, out: &mut Vec<(&'static str, String)>) {
    let fields = format!(
        "BaseVersion {} · MgmtClass {:#04x} · ClassVersion {} · Method {:#04x} · Status {:#06x} · ClassSpecific {:#06x} · TransactionID {:#x} · AttributeID {:#06x} · AttributeModifier {:#x}",
        header.base_version,
        header.class,
        header.class_version,
        header.method,
        header.status,
        header.class_specific,
        header.tid,
        header.attribute,
        header.modifier
    );

    out.push(("MAD", fields));
    if smp::is_class(header.class) {
        out.push(("SMP", format!("M_Key {:#x}", smp::m_key(mad))));
    }

    if header.class == smp::CLASS_DIRECTED {
        let directed = smp::Directed::parse(mad);
        let fields = format!(
            "D {} · HopPointer {} · HopCount {} · DrSLID {:#06x} · DrDLID {:#06x}",
            u8::from(directed.returning),
            directed.hop_pointer,
            directed.hop_count,
            directed.dr_slid,
            directed.dr_dlid
        );
        out.push(("directed route", fields));
    }

    let data = match smp::is_class(header.class) {
        true => &smp::data(mad)[..],
        false => &mad[LEN - pma::DATA_LEN..],
    };

    let end = data
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);

    if end > 0 {
        let bytes: Vec<String> = data[..end].iter().map(|b| format!("{b:02x}")).collect();
        out.push(("data", bytes.join(" ")));
    }
}

/// What the specification calls it, with what matters of it: `SubnGetResp(PortInfo), modifier 0x2,
/// status 0x001c`.
pub(super) fn name(header: &MadHeader) -> String {
    let class = match header.class {
        class if smp::is_class(class) => "Subn",
        pma::CLASS => "Perf",
        class => return format!("MAD of class {class:#04x}, method {:#04x}", header.method),
    };

    let method = match header.method {
        method::GET => "Get".to_owned(),
        method::SET => "Set".to_owned(),
        method::GET_RESP => "GetResp".to_owned(),
        method::TRAP => "Trap".to_owned(),
        method::TRAP_REPRESS => "TrapRepress".to_owned(),
        other => format!(" method {other:#04x} "),
    };

    let attribute = match (class, header.attribute) {
        ("Subn", number) => attribute_name(number),
        (_, pma::attribute::CLASS_PORT_INFO) => "ClassPortInfo".to_owned(),
        (_, pma::attribute::PORT_SAMPLES_CONTROL) => "PortSamplesControl".to_owned(),
        (_, pma::attribute::PORT_SAMPLES_RESULT) => "PortSamplesResult".to_owned(),
        (_, pma::attribute::PORT_COUNTERS) => "PortCounters".to_owned(),
        (_, pma::attribute::PORT_COUNTERS_EXTENDED) => "PortCountersExtended".to_owned(),
        (_, number) => format!("{number:#06x}"),
    };

    let mut name = format!("{class}{method}({attribute})");
    if header.modifier != 0 {
        name += &format!(", modifier {:#x}", header.modifier);
    }

    let status = header.status & !smp::DIRECTION;
    if status != 0 {
        name += &format!(", status {status:#06x}");
    }

    name
}
