//! Tests of the image, reading it as rdma-core's libraries do.

use super::*;
use crate::image::Image;
use ferroce_control::{GID_TABLE_LEN, RuntimeDir};
use std::fs;
use std::path::Path;

fn info() -> DeviceInfo {
    DeviceInfo {
        name: "ferroce0".into(),
        index: 10_000,
        uverbs: "uverbs0".into(),
        node_guid: [2, 0, 0, 0xff, 0xfe, 1, 2, 3],
        sys_image_guid: [2, 0, 0, 0xff, 0xfe, 1, 2, 3],
        netdev: "lo".into(),
        netdev_index: 1,
        netdev_mtu: 65_536,
        active_mtu: 4096,
        speed_mbps: 40_000,
        port_active: true,
        ib_ports: 0,
        gid_tbl_len: GID_TABLE_LEN,
        rcvbuf: 425_984,
        fw_ver: "0.1.0".into(),
        stretch_timeouts: 1,
        congestion: Default::default(),
    }
}

fn gid() -> GidEntry {
    GidEntry {
        index: 2,
        gid: crate::gids::gid_of("127.0.7.1".parse().unwrap()),
        addr: "127.0.7.1".parse().unwrap(),
        scope_id: 0,
        ifindex: 1,
        ifname: "lo".into(),
    }
}

fn shown(root: &Path, path: &str) -> String {
    let path = root.join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_libraries_find_what_they_read() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(temp.path()));
    let premises = dir.prepare().unwrap();
    let mut image = Image::create(&premises, false).unwrap();
    let (info, gid) = (info(), gid());
    image
        .show(&View {
            info: &info,
            description: ("host ferroce0", true),
            ib_ports: &[],
            first_umad: 0,
            gids: vec![&gid],
            counters: vec![vec![("port_xmit_data", 7)]],
            hw_counters: vec![("duplicate_request", 9)],
            cm_messages: vec![("cm_tx_msgs/req".to_owned(), 5)],
        })
        .unwrap();

    let root = dir.sysfs();
    let device = "class/infiniband/ferroce0";
    let port = "class/infiniband/ferroce0/ports/1";
    for (path, text) in [
        ("class/infiniband_verbs/abi_version", "6\n"),
        ("class/infiniband_verbs/uverbs0/ibdev", "ferroce0\n"),
        ("class/infiniband_verbs/uverbs0/dev", "1:3\n"),
        ("class/infiniband_verbs/uverbs0/abi_version", "1\n"),
        (
            "class/infiniband_verbs/uverbs0/device/modalias",
            "ferroce:ferroce0\n",
        ),
        ("class/infiniband_mad/abi_version", "5\n"),
        ("class/misc/rdma_cm/abi_version", "4\n"),
        (&format!("{device}/node_type"), "1: CA\n"),
        (&format!("{device}/node_guid"), "0200:00ff:fe01:0203\n"),
        (&format!("{device}/fw_ver"), "0.1.0\n"),
        (
            &format!("{device}/device/infiniband_verbs/uverbs0/ibdev"),
            "ferroce0\n",
        ),
        (
            &format!("{device}/subsystem/ferroce0/hca_type"),
            "ferroce\n",
        ),
        (&format!("{port}/state"), "4: ACTIVE\n"),
        (&format!("{port}/rate"), "40 Gb/sec (4X FDR10)\n"),
        (&format!("{port}/link_layer"), "Ethernet\n"),
        (&format!("{port}/pkeys/0"), "0xffff\n"),
        (
            &format!("{port}/gids/2"),
            "0000:0000:0000:0000:0000:ffff:7f00:0701\n",
        ),
        (&format!("{port}/gid_attrs/types/2"), "RoCE v2\n"),
        (&format!("{port}/gid_attrs/ndevs/2"), "lo\n"),
        (
            &format!("{port}/gids/0"),
            "0000:0000:0000:0000:0000:0000:0000:0000\n",
        ),
        (&format!("{port}/gid_attrs/types/63"), "IB/RoCE v1\n"),
        (&format!("{port}/gid_attrs/ndevs/0"), ""),
        (&format!("{port}/counters/port_xmit_data"), "7\n"),
        (&format!("{port}/hw_counters/duplicate_request"), "9\n"),
        (&format!("{port}/cm_tx_msgs/req"), "5\n"),
    ] {
        assert_eq!(shown(&root, path), text, "{path}");
    }

    let nets: Vec<_> = real::entries(root.join(device).join("device/net"))
        .into_iter()
        .collect();
    assert_eq!(nets, ["lo"]);
    assert_eq!(
        fs::read_link(dir.dev().join("infiniband/uverbs0")).unwrap(),
        Path::new("/dev/null")
    );
}

fn view<'a>(info: &'a DeviceInfo, gids: Vec<&'a GidEntry>) -> View<'a> {
    View {
        info,
        description: ("host ferroce0", true),
        ib_ports: &[],
        first_umad: 0,
        gids,
        counters: vec![],
        hw_counters: vec![],
        cm_messages: vec![],
    }
}

#[test]
fn changes_are_written_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(temp.path()));
    let premises = dir.prepare().unwrap();
    let mut image = Image::create(&premises, false).unwrap();
    let (mut info, gid) = (info(), gid());
    image.show(&view(&info, vec![&gid])).unwrap();
    let port = dir.sysfs().join("class/infiniband/ferroce0/ports/1");
    let written = |path: &str| fs::metadata(port.join(path)).unwrap().modified().unwrap();
    let before = written("rate");

    info.port_active = false;
    image.show(&view(&info, vec![])).unwrap();
    assert_eq!(shown(&port, "state"), "1: DOWN\n");
    assert_eq!(shown(&port, "phys_state"), "3: Disabled\n");
    assert_eq!(shown(&port, "gids/2"), format!("{}\n", quads(&[0; 16])));
    assert_eq!(written("rate"), before);

    info.netdev = "eth9".into();
    image.show(&view(&info, vec![])).unwrap();
    assert_eq!(
        real::entries(dir.sysfs().join("class/infiniband/ferroce0/device/net")),
        ["eth9".to_owned()].into()
    );

    image.remove().unwrap();
    assert!(!dir.sysfs().exists() && !dir.dev().exists());
}

#[test]
fn real_devices_stay_visible() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("mlx5_0")).unwrap();
    let mut tree = Tree::new();
    let real = temp.path().to_str().unwrap();
    beside(
        &mut Dir {
            tree: &mut tree,
            path: "class".into(),
        },
        real,
    );

    let link = Node::Link(temp.path().join("mlx5_0"));
    assert_eq!(
        tree.into_iter().collect::<Vec<_>>(),
        [("class/mlx5_0".into(), link)]
    );
}
