//! Which values the components of PortInfo may be set to, and which not, given the port as it is.

use ferroce_wire::smp::PortInfo;

/// What legal values of a component become, given the port as it is: value and what it is then.
pub(super) type Legal = fn(&PortInfo) -> Vec<(u128, u128)>;
/// Values that a component must not have.
pub(super) type Illegal = fn(&PortInfo) -> Vec<u128>;

/// The read-write components of a channel adapter's port that have legal values to be set.
pub(super) const LEGAL: &[(&str, Legal)] = &[
    ("gid_prefix", |_| {
        same([0xfec0_0000_0000_0001, u64::MAX.into(), 0xfe80 << 48])
    }),
    ("lid", |now| same([1, 0x42, 0xbfff, now.lid.into()])),
    ("lmc", |_| same([7, 1, 0])),
    ("master_sm_lid", |_| same([0xbfff, 2, 1])),
    ("master_sm_sl", |_| same([15, 1, 0])),
    ("m_key_lease_period", |_| same([1, 0xffff, 0])),
    ("m_key_protect_bits", |_| same([1, 2, 3, 0])),
    ("subnet_timeout", |_| same([31, 0, 18, 8])),
    ("init_type_reply", |_| same([15, 1, 0])),
    ("neighbor_mtu", |now| {
        same((1..=u128::from(now.mtu_cap)).collect::<Vec<_>>())
    }),
    ("operational_vls", |now| {
        let mut values = same((1..=u128::from(now.vl_cap)).collect::<Vec<_>>());
        values.push((0, now.vl_cap.into()));
        values
    }),
    ("vl_high_limit", |_| same([255, 1, 0])),
    ("local_phy_errors", |_| same([15, 1, 0])),
    ("overrun_errors", |_| same([15, 1, 0])),
    ("link_down_default_state", |_| vec![(1, 1), (0, 1), (2, 2)]),
    ("link_width_enabled", |now| {
        subset(now.link_width_supported, 255)
    }),
    ("link_speed_enabled", |now| {
        subset(now.link_speed_supported, 15)
    }),
    ("link_speed_ext_enabled", |now| {
        match now.link_speed_ext_supported {
            0 => vec![(0, 0)],
            supported => [vec![(30, 0)], subset(supported, 31)].concat(),
        }
    }),
];

/// The components that have illegal values.
pub(super) const ILLEGAL_VALUES: &[(&str, Illegal)] = &[
    ("lid", |_| vec![0, 0xc000, 0xfffe, 0xffff]),
    ("master_sm_lid", |_| vec![0, 0xc000, 0xffff]),
    ("neighbor_mtu", |now| {
        [vec![0], beyond(now.mtu_cap)].concat()
    }),
    ("operational_vls", |now| beyond(now.vl_cap)),
    ("link_down_default_state", |_| (3..=15).collect()),
    ("link_width_enabled", |now| {
        unsupported(now.link_width_supported, 8, &[255])
    }),
    ("link_speed_enabled", |now| {
        unsupported(now.link_speed_supported, 4, &[15])
    }),
    ("link_speed_ext_enabled", |now| {
        unsupported(now.link_speed_ext_supported, 5, &[30, 31])
    }),
    ("port_state", |_| [vec![2], (5..=15).collect()].concat()),
    ("port_physical_state", |_| (4..=15).collect()),
];

pub(super) fn same(values: impl IntoIterator<Item = u128>) -> Vec<(u128, u128)> {
    values.into_iter().map(|value| (value, value)).collect()
}

/// Each of the bits, then "no change", then "all".
fn subset(supported: u8, all: u8) -> Vec<(u128, u128)> {
    let bits = (0..8)
        .map(|bit| 1 << bit)
        .filter(|bit| supported & bit != 0);
    let mut values: Vec<_> = bits.map(|bit| (bit.into(), bit.into())).collect();
    let last = values.last().map_or(0, |(_, bit)| *bit);
    values.extend([(0, last), (all.into(), supported.into())]);
    values
}

/// Each bit that is not supported, alone, unless it means something else.
fn unsupported(supported: u8, bits: u32, reserved: &[u8]) -> Vec<u128> {
    (0..bits)
        .map(|bit| 1u8 << bit)
        .filter(|bit| supported & bit == 0 && !reserved.contains(bit))
        .map(u128::from)
        .collect()
}

fn beyond(cap: u8) -> Vec<u128> {
    (cap + 1..=15).map(u128::from).collect()
}
