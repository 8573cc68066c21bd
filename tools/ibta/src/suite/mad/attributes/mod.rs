//! C14_024_02 to 15: every attribute of subnet management but PortInfo (C14-24.1.1, C14-31).

mod absent;
mod decided;
mod node;
mod partitions;
mod tables;

use crate::catalog::Test;
use absent::{sm_info, unsupported};
use ferroce_wire::smp::attribute;
use node::{node_description, node_info, vendor_diag};
use partitions::p_key_table;
use tables::{guid_info, led_info};

pub(super) fn tests() -> Vec<Test> {
    let mut tests = vec![
        node_description(),
        node_info(),
        guid_info(),
        p_key_table(),
        sm_info(),
        vendor_diag(),
        led_info(),
    ];

    let not_here = [
        ("C14_024_01", attribute::NOTICE),
        ("C14_024_04", attribute::SWITCH_INFO),
        ("C14_024_10", attribute::LINEAR_FORWARDING),
        ("C14_024_11", attribute::RANDOM_FORWARDING),
        ("C14_024_12", attribute::MULTICAST_FORWARDING),
    ];
    tests.extend(not_here.map(|(id, attribute)| unsupported(id, attribute)));
    tests
}
