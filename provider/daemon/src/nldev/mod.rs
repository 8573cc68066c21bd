//! Answers to `NETLINK_RDMA` messages about devices, as the kernel's `ib_core` gives them: what
//! `rdma` of iproute2 shows, and where libibverbs and librdmacm find devices and their files.
//!
//! [`message`] takes messages apart and puts them together, [`device`], [`resources`] and
//! [`statistics`] say what is, [`kernel`] asks the kernel about real devices, [`server`] is the
//! programs' sockets, [`device_view`] is where it all comes from. This module decides who answers
//! what. Nothing here changes the device: what would is refused.

mod device;
mod device_view;
#[cfg(any(test, feature = "fuzzing"))]
mod example;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod kernel;
mod message;
mod objects;
mod resources;
mod server;
mod statistics;
#[cfg(test)]
mod tests;

use ferroce_cabi::rdma_netlink::*;
use ferroce_control::objects::{QpNumbers, QueuePair};
use ferroce_control::{DeviceInfo, IbPort};
use rustix::io::Errno;

pub(crate) use self::device_view::DeviceView;
use self::kernel::Kernel;
use self::message::{Asker, Attributes, Refusal, Request, flag};
pub(crate) use self::objects::{Client, Identifier};
pub(crate) use self::server::Server;
use crate::users::Whose;

/// What is to be told.
pub(crate) trait View {
    /// The device.
    fn info(&self) -> &DeviceInfo;
    /// Its ports, if they are InfiniBand's.
    fn ib_ports(&self) -> &[IbPort];
    /// The number of the first port's umad file.
    fn first_umad(&self) -> u32;
    /// `hw_counters` of each port.
    fn hw_counters(&self) -> Vec<(&'static str, u64)>;
    /// The programs that have objects, of one user or of all.
    fn clients(&self, whose: Whose) -> Vec<Client>;
    /// The numbers of a queue pair that the program of a slot has listed.
    fn numbers(&self, slot: u8, qp: &QueuePair) -> QpNumbers;
    /// The connection manager's identifiers that have a device, of one user or of all.
    fn identifiers(&self, whose: Whose) -> Vec<Identifier>;
}

/// Whom a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The device.
    Us,
    /// A device of the kernel's, or the kernel itself where it has devices.
    Kernel,
    /// All devices.
    All,
}

/// `own`: the device's index.
fn about(request: &Request<'_>, own: u32) -> About {
    if family(request.message_type) != RDMA_NL_NLDEV {
        return About::Kernel;
    }

    // One that is malformed names nobody.
    let named = request.u32(RDMA_NLDEV_ATTR_DEV_INDEX).ok().flatten();
    match (named, command(request.message_type)) {
        (Some(index), _) if index == own => About::Us,
        (Some(_), _) => About::Kernel,
        (None, RDMA_NLDEV_CMD_GET | RDMA_NLDEV_CMD_RES_GET) if request.is_dump() => About::All,
        // The connection manager is ours for all devices.
        (None, RDMA_NLDEV_CMD_GET_CHARDEV)
            if request.text(RDMA_NLDEV_ATTR_CHARDEV_TYPE) == Ok(Some(b"rdma_cm")) =>
        {
            About::Us
        }
        (None, _) => About::Kernel,
    }
}

/// The answers to a request, in order. Without a kernel that has devices, what is about those is
/// answered as by a kernel that has none but ours.
fn answers(
    view: &impl View,
    to: Asker,
    kernel: Option<&Kernel>,
    request: &Request<'_>,
) -> Vec<Vec<u8>> {
    if !request.asks() {
        let wanted = request.flags & flag::ACK != 0;
        let confirmed = wanted.then(|| message::acknowledge(to, request, None));
        return confirmed.into_iter().collect();
    }

    let mut from_kernel = Vec::new();
    if let Some(kernel) = kernel {
        match about(request, view.info().index) {
            About::Us => {}
            About::Kernel => return kernel.ask(to, request),
            About::All => from_kernel = kernel.list(to, request),
        }
    }

    from_kernel.extend(own_answers(view, to, request));
    from_kernel
}

/// The answers of the device itself.
fn own_answers(view: &impl View, to: Asker, request: &Request<'_>) -> Vec<Vec<u8>> {
    if let Err(refusal) = allowed(to.net_admin, request) {
        return vec![message::acknowledge(to, request, Some(refusal))];
    }
    if request.is_dump() {
        return listing(view, to, request);
    }

    match single(view, to, request) {
        Ok((kind, attributes)) if attributes.fits() => {
            let mut answers = vec![message::answer(to, request, kind, &attributes)];
            if request.flags & flag::ACK != 0 {
                answers.push(message::acknowledge(to, request, None));
            }
            answers
        }
        Ok(_) => vec![message::acknowledge(
            to,
            request,
            Some(Errno::MSGSIZE.into()),
        )],
        Err(refusal) => vec![message::acknowledge(to, request, Some(refusal))],
    }
}

/// Whether a program may ask this.
fn allowed(net_admin: bool, request: &Request<'_>) -> Result<(), Refusal> {
    if family(request.message_type) != RDMA_NL_NLDEV {
        return Err(Errno::INVAL.into());
    }

    let of_administrators = matches!(
        command(request.message_type),
        RDMA_NLDEV_CMD_SET
            | RDMA_NLDEV_CMD_NEWLINK
            | RDMA_NLDEV_CMD_DELLINK
            | RDMA_NLDEV_CMD_SYS_SET
            | RDMA_NLDEV_CMD_STAT_SET
            | RDMA_NLDEV_CMD_STAT_DEL
            | RDMA_NLDEV_CMD_RES_QP_GET_RAW
            | RDMA_NLDEV_CMD_RES_CQ_GET_RAW
            | RDMA_NLDEV_CMD_RES_MR_GET_RAW
    );

    match of_administrators && !net_admin {
        true => Err(Errno::PERM.into()),
        false => Ok(()),
    }
}

/// A listing, with its end.
fn listing(view: &impl View, to: Asker, request: &Request<'_>) -> Vec<Vec<u8>> {
    let command = command(request.message_type);
    let listed = match command {
        RDMA_NLDEV_CMD_GET => Ok(vec![device::describe(view)]),
        RDMA_NLDEV_CMD_PORT_GET => device::all_ports(view, request),
        RDMA_NLDEV_CMD_RES_GET => Ok(vec![resources::summary(view, to)]),
        RDMA_NLDEV_CMD_STAT_GET => statistics::all(view, to, request),
        _ => match resources::kind(command) {
            Some(kind) => resources::list(view, to, request, kind),
            // Nothing else is listed.
            None => {
                let refusal = Some(Errno::INVAL.into());
                return vec![message::acknowledge(to, request, refusal)];
            }
        },
    };

    let (entries, failed) = match listed {
        Ok(entries) => (entries, None),
        Err(refusal) => (Vec::new(), Some(refusal)),
    };
    let messages = entries
        .iter()
        .map(|entry| message::answer(to, request, request.message_type, entry));
    let mut answers: Vec<_> = messages.collect();
    answers.push(message::done(to, request, failed));
    answers
}

/// One answer, with its type.
fn single(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
) -> Result<(u16, Attributes), Refusal> {
    let mut kind = request.message_type;
    let command = command(request.message_type);
    let attributes = match command {
        RDMA_NLDEV_CMD_GET => device::named(view, request).map(|()| device::describe(view)),
        RDMA_NLDEV_CMD_PORT_GET => {
            // So the kernel calls it.
            kind = message_type(RDMA_NLDEV_CMD_GET);
            device::one_port(view, request)
        }
        RDMA_NLDEV_CMD_SYS_GET => Ok(device::system()),
        RDMA_NLDEV_CMD_GET_CHARDEV => device::file(view, request),
        RDMA_NLDEV_CMD_RES_GET => {
            device::named(view, request).map(|()| resources::summary(view, to))
        }
        RDMA_NLDEV_CMD_STAT_GET => statistics::of_port(view, to, request),
        RDMA_NLDEV_CMD_STAT_GET_STATUS => statistics::status(view, request),
        _ => match resources::kind(command) {
            Some(kind) => resources::one(view, to, request, kind),
            None => Err(refused(view, to, request)),
        },
    };

    Ok((kind, attributes?))
}

/// Why something is not done.
fn refused(view: &impl View, to: Asker, request: &Request<'_>) -> Refusal {
    const FIXED: Refusal = Refusal::new(
        Errno::OPNOTSUPP,
        "a ferroce device is what `ferroce up` was told to make; stop it and start another",
    );

    const NOT_A_LINK: Refusal =
        Refusal::new(Errno::INVAL, "a ferroce device is ended by `ferroce down`");

    let about_us = || device::named(view, request).err();
    match command(request.message_type) {
        RDMA_NLDEV_CMD_SET => about_us().unwrap_or(FIXED),
        RDMA_NLDEV_CMD_SYS_SET => FIXED,
        RDMA_NLDEV_CMD_DELLINK => about_us().unwrap_or(NOT_A_LINK),
        RDMA_NLDEV_CMD_STAT_SET => match statistics::port_of(view, request) {
            Ok(_) => Errno::OPNOTSUPP.into(),
            Err(refusal) => refusal,
        },
        RDMA_NLDEV_CMD_STAT_DEL => statistics::not_unbound(view, to, request),
        _ => Errno::INVAL.into(),
    }
}
