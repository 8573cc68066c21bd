//! What is said of the device, its ports and its files.

use ferroce_cabi::rdma_netlink::*;
use ferroce_control::{DeviceInfo, IbPort, capabilities};
use ferroce_wire::smp::node_type::CHANNEL_ADAPTER;
use ferroce_wire::smp::phys_state::{DISABLED, LINK_UP};
use ferroce_wire::smp::state::{ACTIVE, DOWN};
use rustix::io::Errno;

use super::View;
use super::message::{Attributes, Refusal, Request};
use crate::sysfs::{PROVIDER_ABI, UCMA_ABI, UMAD_ABI};

/// `RDMA_DRIVER_UNKNOWN`: the kernel has no number for this driver.
const DRIVER_UNKNOWN: u32 = 0;
/// The numbers of `/dev/null`, to which the image's device files lead, as `huge_encode_dev` has
/// them.
const NULL_DEVICE: u64 = 1 << 8 | 3;
/// What librdmacm takes for a file whose number is not known. One that it knows and cannot open it
/// looks for elsewhere, below `/dev/char`, and tells how that ended in place of what was wrong,
/// such as `ENFILE`.
const NO_NUMBER: u64 = 0;

/// How many ports the device has.
fn port_count(info: &DeviceInfo) -> u8 {
    info.ib_ports.max(1)
}

/// The device that a request names must be this one.
pub(super) fn named(view: &impl View, request: &Request<'_>) -> Result<(), Refusal> {
    match request.u32(RDMA_NLDEV_ATTR_DEV_INDEX)? {
        Some(index) if index == view.info().index => Ok(()),
        _ => Err(Errno::INVAL.into()),
    }
}

/// The port that a request names, if it names one: it must be there.
pub(super) fn port(view: &impl View, request: &Request<'_>) -> Result<Option<u8>, Refusal> {
    let ports = 1..=port_count(view.info());
    match request.u32(RDMA_NLDEV_ATTR_PORT_INDEX)? {
        Some(port) => match u8::try_from(port) {
            Ok(port) if ports.contains(&port) => Ok(Some(port)),
            _ => Err(Errno::INVAL.into()),
        },
        None => Ok(None),
    }
}

/// Index and name, with which most answers begin.
pub(super) fn handle(view: &impl View) -> Attributes {
    let mut out = Attributes::default();
    out.u32(RDMA_NLDEV_ATTR_DEV_INDEX, view.info().index)
        .text(RDMA_NLDEV_ATTR_DEV_NAME, &view.info().name);
    out
}

/// The device.
pub(super) fn describe(view: &impl View) -> Attributes {
    let info = view.info();
    let protocol = match info.ib_ports {
        0 => "roce",
        _ => "ib",
    };

    let guid = |bytes: [u8; 8]| u64::from_be_bytes(bytes);
    let mut out = handle(view);
    out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, port_count(info).into())
        .u64(RDMA_NLDEV_ATTR_CAP_FLAGS, capabilities::DEVICE)
        .text(RDMA_NLDEV_ATTR_FW_VERSION, &info.fw_ver)
        .u64(RDMA_NLDEV_ATTR_NODE_GUID, guid(info.node_guid))
        .u64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, guid(info.sys_image_guid))
        .u8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, CHANNEL_ADAPTER)
        .u8(RDMA_NLDEV_ATTR_DEV_DIM, 0)
        .text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, protocol);

    out
}

/// The port that a request is about.
pub(super) fn one_port(view: &impl View, request: &Request<'_>) -> Result<Attributes, Refusal> {
    named(view, request)?;
    let port = port(view, request)?.ok_or(Errno::INVAL)?;
    describe_port(view, port).ok_or(Errno::INVAL.into())
}

/// All ports.
pub(super) fn all_ports(
    view: &impl View,
    request: &Request<'_>,
) -> Result<Vec<Attributes>, Refusal> {
    named(view, request)?;
    let ports = 1..=port_count(view.info());
    Ok(ports.filter_map(|port| describe_port(view, port)).collect())
}

fn describe_port(view: &impl View, number: u8) -> Option<Attributes> {
    let info = view.info();
    let mut out = handle(view);
    out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, number.into());
    if info.ib_ports > 0 {
        let port = view.ib_ports().iter().find(|port| port.number == number)?;
        describe_ib_port(&mut out, port);
        return Some(out);
    }

    let (state, physical) = match info.port_active {
        true => (ACTIVE, LINK_UP),
        false => (DOWN, DISABLED),
    };
    out.u8(RDMA_NLDEV_ATTR_PORT_STATE, state)
        .u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, physical);

    // An interface that has gone has no index.
    if info.netdev_index != 0 {
        out.u32(RDMA_NLDEV_ATTR_NDEV_INDEX, info.netdev_index)
            .text(RDMA_NLDEV_ATTR_NDEV_NAME, &info.netdev);
    }

    Some(out)
}

fn describe_ib_port(out: &mut Attributes, port: &IbPort) {
    let first = port.gids.iter().find(|(index, _)| *index == 0);
    let prefix = first.and_then(|(_, gid)| gid.first_chunk::<8>());
    let prefix = prefix.map_or(0, |bytes| u64::from_be_bytes(*bytes));
    out.u64(RDMA_NLDEV_ATTR_CAP_FLAGS, port.capabilities.into())
        .u64(RDMA_NLDEV_ATTR_SUBNET_PREFIX, prefix)
        .u32(RDMA_NLDEV_ATTR_LID, port.lid.into())
        .u32(RDMA_NLDEV_ATTR_SM_LID, port.sm_lid.into())
        .u8(RDMA_NLDEV_ATTR_LMC, port.lmc)
        .u8(RDMA_NLDEV_ATTR_PORT_STATE, port.state)
        .u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, port.phys_state);
}

/// What holds for all devices: they are seen from every network namespace, as far as the runtime
/// directory is; and memory that is registered is not pinned but looked up as the process has it,
/// so that `fork` changes nothing.
pub(super) fn system() -> Attributes {
    let mut out = Attributes::default();
    out.u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1)
        .u8(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
    out
}

/// A device file of the image.
pub(super) fn file(view: &impl View, request: &Request<'_>) -> Result<Attributes, Refusal> {
    let kind = request.text(RDMA_NLDEV_ATTR_CHARDEV_TYPE)?;
    let kind = kind.ok_or(Errno::INVAL)?;
    let of_device = request.has(RDMA_NLDEV_ATTR_DEV_INDEX);
    let mut out = Attributes::default();
    if !of_device {
        if request.has(RDMA_NLDEV_ATTR_PORT_INDEX) {
            return Err(Errno::INVAL.into());
        }
        return match kind {
            b"rdma_cm" => Ok(described_file(out, "rdma_cm", UCMA_ABI, NO_NUMBER)),
            _ => Err(Errno::OPNOTSUPP.into()),
        };
    }

    named(view, request)?;
    let port = port(view, request)?;
    match kind {
        b"uverbs" => {
            out.u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, DRIVER_UNKNOWN);
            let name = &view.info().uverbs;
            Ok(described_file(out, name, PROVIDER_ABI, NULL_DEVICE))
        }
        b"umad" => mad_file(view, out, "umad", port),
        // Without a QP0 nobody can be a subnet manager.
        b"issm" if view.info().ib_ports > 0 => mad_file(view, out, "issm", port),
        _ => Err(Errno::OPNOTSUPP.into()),
    }
}

fn mad_file(
    view: &impl View,
    out: Attributes,
    kind: &str,
    port: Option<u8>,
) -> Result<Attributes, Refusal> {
    let port = port.ok_or(Errno::INVAL)?;
    let name = format!("{kind}{}", view.first_umad() + u32::from(port) - 1);
    Ok(described_file(out, &name, UMAD_ABI, NULL_DEVICE))
}

fn described_file(mut out: Attributes, name: &str, abi: u32, number: u64) -> Attributes {
    out.u64(RDMA_NLDEV_ATTR_CHARDEV, number)
        .u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, abi.into())
        .text(RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
    out
}
