//! The image of `/sys` and `/dev`: what rdma-core's libraries read about a device. Here it is
//! rendered, whole, from what the daemon knows; `image` puts it into files.
//!
//! The layout is the kernel's (`Documentation/ABI/stable/sysfs-class-infiniband`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use ferroce_control::{DeviceInfo, GidEntry, IbPort, link::Rate};

use crate::real;

/// Version of the uverbs ABI that libibverbs of rdma-core knows.
const UVERBS_ABI: u32 = 6;
/// Version of the provider's own part of it.
pub(crate) const PROVIDER_ABI: u32 = 1;
/// Version of the umad ABI.
pub(crate) const UMAD_ABI: u32 = 5;
/// Version of the rdma_cm ABI.
pub(crate) const UCMA_ABI: u32 = 4;
/// `/dev/null`, which stands in for the device file: it can be opened by anybody, does nothing, and
/// libibverbs compares its numbers with these.
const NULL_DEVICE: &str = "1:3";

/// The name of the device's file that programs may write.
pub(crate) const NODE_DESC: &str = "node_desc";

/// Everything that the image shows.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The device.
    pub info: &'a DeviceInfo,
    /// What it is called, and whether programs may say otherwise.
    pub description: (&'a str, bool),
    /// The ports of an InfiniBand device.
    pub ib_ports: &'a [IbPort],
    /// The number of the first port's umad file.
    pub first_umad: u32,
    /// The used entries of its GID table.
    pub gids: Vec<&'a GidEntry>,
    /// `counters/*` of each port.
    pub counters: Vec<Vec<(&'static str, u64)>>,
    /// `hw_counters/*`.
    pub hw_counters: Vec<(&'static str, u64)>,
    /// `cm_tx_msgs/*` and its like, directory and all.
    pub cm_messages: Vec<(String, u64)>,
}

/// A part of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A file with this text.
    File(String),
    /// The same, and whoever has the image may write it.
    Setting(String),
    /// A symbolic link to this.
    Link(PathBuf),
}

/// The whole image, by paths from the runtime directory on: all begin with `sys` or `dev`.
pub(crate) type Tree = BTreeMap<PathBuf, Node>;

/// Collects nodes below one directory of the image.
struct Dir<'a> {
    tree: &'a mut Tree,
    path: PathBuf,
}

impl Dir<'_> {
    fn file(&mut self, name: &str, text: impl AsRef<str>) -> &mut Self {
        let text = line(text.as_ref());
        self.tree.insert(self.path.join(name), Node::File(text));
        self
    }

    fn setting(&mut self, name: &str, text: &str) -> &mut Self {
        let text = line(text);
        self.tree.insert(self.path.join(name), Node::Setting(text));
        self
    }

    fn link(&mut self, name: &str, target: impl Into<PathBuf>) -> &mut Self {
        self.tree
            .insert(self.path.join(name), Node::Link(target.into()));
        self
    }
}

fn line(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("{text}\n"),
    }
}

/// The directory of what belongs to a device as a whole, from the runtime directory on.
pub(crate) fn device_directory(name: &str) -> PathBuf {
    PathBuf::from(format!(
        "sys/devices/virtual/ferroce/{name}/infiniband/{name}"
    ))
}

/// Renders the image.
pub(crate) fn render(view: &View<'_>) -> Tree {
    let mut tree = Tree::new();
    let mut at = |path: &str, fill: &dyn Fn(&mut Dir<'_>)| {
        fill(&mut Dir {
            tree: &mut tree,
            path: PathBuf::from(path),
        });
    };

    let info = view.info;
    let DeviceInfo {
        name,
        uverbs,
        netdev,
        ..
    } = info;
    let device = format!("sys/devices/virtual/ferroce/{name}");
    let up = format!("../../devices/virtual/ferroce/{name}");

    // What the provider is matched by, if it is matched by modalias at all.
    at(&device, &|dir| {
        dir.file("modalias", format!("ferroce:{name}"))
            .file("uevent", format!("DRIVER=ferroce\nMODALIAS=ferroce:{name}"))
            .file("numa_node", "-1");
    });

    // That of an InfiniBand port would be IPoIB's.
    if info.ib_ports == 0 {
        at(&format!("{device}/net"), &|dir| {
            dir.link(netdev, format!("/sys/class/net/{netdev}"));
        });
    }
    at(&format!("{device}/infiniband/{name}"), &|dir| {
        device_files(dir, view)
    });
    let ports = format!("{device}/infiniband/{name}/ports");
    if view.ib_ports.is_empty() {
        at(&format!("{ports}/1"), &|dir| port_files(dir, view));
    }

    for port in view.ib_ports {
        at(&format!("{ports}/{}", port.number), &|dir| {
            ib_port_files(dir, port, view)
        });
    }

    at(&format!("{device}/infiniband_verbs/{uverbs}"), &|dir| {
        dir.file("ibdev", name)
            .file("abi_version", PROVIDER_ABI.to_string())
            .file("dev", NULL_DEVICE)
            .file(
                "uevent",
                format!("MAJOR=1\nMINOR=3\nDEVNAME=infiniband/{uverbs}"),
            )
            .link("device", "../..")
            .link("subsystem", "../../../../../../class/infiniband_verbs");
    });

    at("sys/class/infiniband", &|dir| {
        beside(dir, "/sys/class/infiniband");
        dir.link(name, format!("{up}/infiniband/{name}"));
    });

    at("sys/class/infiniband_verbs", &|dir| {
        beside(dir, "/sys/class/infiniband_verbs");
        dir.link(uverbs, format!("{up}/infiniband_verbs/{uverbs}"))
            .file("abi_version", UVERBS_ABI.to_string());
    });

    // By name: the port's number.
    let mut mad_files = Vec::new();
    for port in 1..=info.ib_ports.max(1) {
        let number = view.first_umad + u32::from(port) - 1;
        mad_files.push((format!("umad{number}"), port));
        if info.ib_ports > 0 {
            mad_files.push((format!("issm{number}"), port));
        }
    }

    for (file, port) in &mad_files {
        at(&format!("{device}/infiniband_mad/{file}"), &|dir| {
            dir.file("ibdev", name)
                .file("port", port.to_string())
                .file("dev", NULL_DEVICE)
                .link("device", "../..")
                .link("subsystem", "../../../../../../class/infiniband_mad");
        });
    }

    at("sys/class/infiniband_mad", &|dir| {
        beside(dir, "/sys/class/infiniband_mad");
        for (file, _) in &mad_files {
            dir.link(file, format!("{up}/infiniband_mad/{file}"));
        }
        dir.file("abi_version", UMAD_ABI.to_string());
    });

    at("sys/class/misc/rdma_cm", &|dir| {
        dir.file("abi_version", UCMA_ABI.to_string());
    });
    at("dev/infiniband", &|dir| {
        beside(dir, "/dev/infiniband");
        // Who opens this one is given a channel by the shim.
        dir.link(uverbs, "/dev/null").link("rdma_cm", "/dev/null");
        for (file, _) in &mad_files {
            dir.link(file, "/dev/null");
        }
    });

    tree
}

/// Links to what the host really has there.
fn beside(dir: &mut Dir<'_>, real: &str) {
    for entry in real::entries(real) {
        dir.link(&entry, format!("{real}/{entry}"));
    }
}

fn device_files(dir: &mut Dir<'_>, view: &View<'_>) {
    let info = view.info;
    match view.description {
        (text, true) => dir.setting(NODE_DESC, text),
        (text, false) => dir.file(NODE_DESC, text),
    };
    dir.file("node_type", "1: CA")
        .file("node_guid", quads(&info.node_guid))
        .file("sys_image_guid", quads(&info.sys_image_guid))
        .file("fw_ver", &info.fw_ver)
        .file("hw_rev", "0x0")
        .file("hca_type", "ferroce")
        .file("board_id", "FERROCE")
        .file("uevent", format!("NAME={}", info.name))
        .link("device", "../..")
        .link("subsystem", "../../../../../../class/infiniband");
}

fn port_files(dir: &mut Dir<'_>, view: &View<'_>) {
    let info = view.info;
    let (state, phys_state) = match info.port_active {
        true => ("4: ACTIVE", "5: LinkUp"),
        false => ("1: DOWN", "3: Disabled"),
    };

    dir.file("state", state)
        .file("phys_state", phys_state)
        .file("rate", Rate::of_mbps(info.speed_mbps).sysfs())
        .file("link_layer", "Ethernet")
        .file("lid", "0x0")
        .file("lid_mask_count", "0")
        .file("sm_lid", "0x0")
        .file("sm_sl", "0")
        // Communication management, and GIDs that are IP addresses.
        .file("cap_mask", "0x04010000")
        .file("pkeys/0", "0xffff");

    for index in 0..info.gid_tbl_len {
        match view.gids.iter().find(|entry| entry.index == index) {
            Some(entry) => dir
                .file(&format!("gids/{index}"), quads(&entry.gid))
                .file(&format!("gid_attrs/types/{index}"), "RoCE v2")
                .file(&format!("gid_attrs/ndevs/{index}"), &entry.ifname),
            // The kernel's files of unused entries cannot be read at all (EINVAL), which libibverbs
            // takes to mean this type.
            None => dir
                .file(&format!("gids/{index}"), quads(&[0; 16]))
                .file(&format!("gid_attrs/types/{index}"), "IB/RoCE v1")
                .file(&format!("gid_attrs/ndevs/{index}"), ""),
        };
    }

    counter_files(dir, 1, view);
    for (name, value) in &view.hw_counters {
        dir.file(&format!("hw_counters/{name}"), value.to_string());
    }
    for (name, value) in &view.cm_messages {
        dir.file(name, value.to_string());
    }
}

fn counter_files(dir: &mut Dir<'_>, port: u8, view: &View<'_>) {
    let index = usize::from(port).checked_sub(1);
    let counters = index.and_then(|index| view.counters.get(index));
    for (name, value) in counters.into_iter().flatten() {
        dir.file(&format!("counters/{name}"), value.to_string());
    }
}

fn ib_port_files(dir: &mut Dir<'_>, port: &IbPort, view: &View<'_>) {
    let state = match port.state {
        2 => "2: INIT",
        3 => "3: ARMED",
        4 => "4: ACTIVE",
        _ => "1: DOWN",
    };

    let phys_state = match port.phys_state {
        1 => "1: Sleep",
        2 => "2: Polling",
        4 => "4: PortConfigurationTraining",
        5 => "5: LinkUp",
        6 => "6: LinkErrorRecovery",
        _ => "3: Disabled",
    };

    dir.file("state", state)
        .file("phys_state", phys_state)
        .file("rate", Rate::of_link(port.width, port.speed).sysfs())
        .file("link_layer", "InfiniBand")
        .file("lid", format!("{:#x}", port.lid))
        .file("lid_mask_count", port.lmc.to_string())
        .file("sm_lid", format!("{:#x}", port.sm_lid))
        .file("sm_sl", port.sm_sl.to_string())
        .file("cap_mask", format!("{:#010x}", port.capabilities));

    for (index, key) in port.p_keys.iter().enumerate() {
        dir.file(&format!("pkeys/{index}"), format!("{key:#06x}"));
    }
    for index in 0..port.gid_tbl_len {
        let gid = port.gids.iter().find(|(at, _)| *at == index);
        let gid = gid.map_or([0; 16], |(_, gid)| *gid);
        dir.file(&format!("gids/{index}"), quads(&gid))
            .file(&format!("gid_attrs/types/{index}"), "IB/RoCE v1")
            .file(&format!("gid_attrs/ndevs/{index}"), "");
    }

    counter_files(dir, port.number, view);
    for (name, value) in &view.hw_counters {
        dir.file(&format!("hw_counters/{name}"), value.to_string());
    }
}

/// Bytes in groups of two, as GUIDs and GIDs are written.
fn quads(bytes: &[u8]) -> String {
    let quads: Vec<String> = bytes
        .chunks(2)
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    quads.join(":")
}

#[cfg(test)]
#[path = "sysfs_tests.rs"]
mod tests;
