//! Generic mutants of the management agents: one component of the header or of an attribute is
//! another than it is, by one or zero, in every MAD that the device sends.

use super::Fate;
use crate::catalog::Test;
use crate::execute::execute;
use crate::sim::{MadFaults, OnCable, SimBackend};
use ferroce_wire::bits::{Access, Field};
use ferroce_wire::mad::LEN;
use ferroce_wire::pma::{
    self, ClassPortInfo, PortCounters, PortCountersExtended, PortSamplesControl,
};
use ferroce_wire::smp::{
    self, LedInfo, NodeInfo, NoticeHeader, PortInfo, SmInfo, SwitchInfo, attribute,
};
use std::cell::Cell;
use std::rc::Rc;

/// Where in a MAD a component is, and in which MADs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Component {
    of: Of,
    /// What it is part of, `PortInfo`.
    whole: &'static str,
    field: Field,
}

/// In which MADs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Every,
    Smps,
    Directed,
    /// With this attribute, without an error.
    Subnet(u16),
    Performance(u16),
}

/// How it is changed.
#[derive(Clone, Copy)]
pub(super) enum By {
    One,
    Zero,
}

const fn part(name: &'static str, bit: usize, bits: usize) -> Field {
    Field {
        name,
        bit,
        bits,
        access: Access::Ro,
    }
}

const HEADER: &[Field] = &[
    part("BaseVersion", 0, 8),
    part("MgmtClass", 8, 8),
    part("ClassVersion", 16, 8),
    part("Method", 24, 8),
    part("Status", 33, 15),
    part("TransactionID", 64, 64),
    part("AttributeID", 128, 16),
    part("AttributeModifier", 160, 32),
];
const SMP: &[Field] = &[part("M_Key", 192, 64)];
const DIRECTED: &[Field] = &[
    part("D", 32, 1),
    part("HopPointer", 48, 8),
    part("HopCount", 56, 8),
    part("DrSLID", 256, 16),
    part("DrDLID", 272, 16),
    part("InitialPath", 1032, 8),
    part("ReturnPath", 1544, 8),
];
/// What of tables is changed: the first entry.
const NODE_DESCRIPTION: &[Field] = &[part("first byte", 0, 8)];
const GUID_INFO: &[Field] = &[part("first GUID", 0, 64)];
const P_KEY_TABLE: &[Field] = &[part("first P_Key", 0, 16)];
const SL_TO_VL: &[Field] = &[part("VL of SL 0", 0, 4), part("VL of SL 15", 60, 4)];
const VL_ARBITRATION: &[Field] = &[part("first VL", 4, 4), part("first weight", 8, 8)];
const VENDOR_DIAG: &[Field] = &[part("NextIndex", 0, 16)];

const PARTS: &[(Of, &str, &[Field])] = &[
    (Of::Every, "MAD", HEADER),
    (Of::Smps, "SMP", SMP),
    (Of::Directed, "directed SMP", DIRECTED),
    (
        Of::Subnet(attribute::NOTICE),
        "Notice",
        NoticeHeader::FIELDS,
    ),
    (
        Of::Subnet(attribute::NODE_DESCRIPTION),
        "NodeDescription",
        NODE_DESCRIPTION,
    ),
    (
        Of::Subnet(attribute::NODE_INFO),
        "NodeInfo",
        NodeInfo::FIELDS,
    ),
    (
        Of::Subnet(attribute::SWITCH_INFO),
        "SwitchInfo",
        SwitchInfo::FIELDS,
    ),
    (Of::Subnet(attribute::GUID_INFO), "GUIDInfo", GUID_INFO),
    (
        Of::Subnet(attribute::PORT_INFO),
        "PortInfo",
        PortInfo::FIELDS,
    ),
    (
        Of::Subnet(attribute::P_KEY_TABLE),
        "P_KeyTable",
        P_KEY_TABLE,
    ),
    (
        Of::Subnet(attribute::SL_TO_VL),
        "SLtoVLMappingTable",
        SL_TO_VL,
    ),
    (
        Of::Subnet(attribute::VL_ARBITRATION),
        "VLArbitrationTable",
        VL_ARBITRATION,
    ),
    (Of::Subnet(attribute::SM_INFO), "SMInfo", SmInfo::FIELDS),
    (
        Of::Subnet(attribute::VENDOR_DIAG),
        "VendorDiag",
        VENDOR_DIAG,
    ),
    (Of::Subnet(attribute::LED_INFO), "LedInfo", LedInfo::FIELDS),
    (
        Of::Performance(pma::attribute::CLASS_PORT_INFO),
        "ClassPortInfo",
        ClassPortInfo::FIELDS,
    ),
    (
        Of::Performance(pma::attribute::PORT_SAMPLES_CONTROL),
        "PortSamplesControl",
        PortSamplesControl::FIELDS,
    ),
    (
        Of::Performance(pma::attribute::PORT_COUNTERS),
        "PortCounters",
        PortCounters::FIELDS,
    ),
    (
        Of::Performance(pma::attribute::PORT_COUNTERS_EXTENDED),
        "PortCountersExtended",
        PortCountersExtended::FIELDS,
    ),
];

/// All components.
pub(super) fn all() -> Vec<Component> {
    let of = |(of, whole, fields): &(Of, &'static str, &'static [Field])| {
        let (of, whole) = (*of, *whole);
        let component = move |field: &Field| Component {
            of,
            whole,
            field: *field,
        };
        fields.iter().map(component)
    };
    PARTS.iter().flat_map(of).collect()
}

impl Component {
    /// A mutant's name, `PortInfo.lmc+1`.
    pub(super) fn name(&self, by: By) -> String {
        let change = match by {
            By::One => "+1",
            By::Zero => "=0",
        };
        format!("{}.{}{change}", self.whole, self.field.name)
    }

    /// Whether it is in a MAD. What is refused has no attribute.
    fn is_in(&self, mad: &OnCable) -> bool {
        let header = mad.header();
        let good = header.status & !smp::DIRECTION == 0;
        match self.of {
            Of::Every => true,
            Of::Smps => smp::is_class(header.class),
            Of::Directed => header.class == smp::CLASS_DIRECTED,
            Of::Subnet(attribute) => {
                smp::is_class(header.class) && header.attribute == attribute && good
            }
            Of::Performance(attribute) => {
                header.class == pma::CLASS && header.attribute == attribute && good
            }
        }
    }

    /// Changes it, and says whether there was anything to change.
    fn change(&self, mad: &mut OnCable, by: By) -> bool {
        let bytes = match self.of {
            Of::Every | Of::Smps | Of::Directed => &mut mad.mad[..],
            Of::Subnet(_) => &mut mad.data_mut()[..],
            Of::Performance(_) => &mut mad.mad[LEN - pma::DATA_LEN..],
        };
        let before = self.field.load(bytes);
        let after = match by {
            By::One => before.wrapping_add(1) & self.field.max(),
            By::Zero => 0,
        };
        self.field.store(bytes, after);
        before != after
    }

    /// A test of the management agents on a device that has it so.
    pub(super) fn tried_on(self, by: By, test: &Test) -> Fate {
        let touched = Rc::new(Cell::new(false));
        let seen = touched.clone();
        let faults = MadFaults::default().tx_edit(move |_, mad| {
            if self.is_in(mad) {
                seen.set(self.change(mad, by) | seen.get());
            }
        });
        let mut backend = SimBackend {
            mad_faults: Some(faults),
            ..SimBackend::default()
        };
        Fate::of(test, &mut backend, &touched)
    }

    /// Which of these are in what a sound device sends in a test: of others nothing can be changed.
    pub(super) fn found_in(test: &Test, components: &[Component]) -> Vec<Component> {
        let found: Rc<Vec<Cell<bool>>> =
            Rc::new(components.iter().map(|_| Cell::new(false)).collect());
        let (seen, looked_for) = (found.clone(), components.to_vec());
        let faults = MadFaults::default().tx_edit(move |_, mad| {
            for (component, found) in looked_for.iter().zip(seen.iter()) {
                found.set(found.get() || component.is_in(mad));
            }
        });

        let mut backend = SimBackend {
            mad_faults: Some(faults),
            ..SimBackend::default()
        };
        execute(test, &mut backend, Box::new(|_| {}));
        let pairs = components.iter().zip(found.iter());
        pairs
            .filter(|(_, found)| found.get())
            .map(|(component, _)| *component)
            .collect()
    }
}
