use super::*;
use crate::config::Config;
use crate::interfaces::Address;

fn snapshot() -> Snapshot {
    let link = |index, name: &str, mtu, mac, up, loopback| Link {
        index,
        name: name.to_owned(),
        mtu,
        mac,
        up,
        loopback,
    };

    let address = |ifindex, ip: &str, prefix_len| Address {
        ifindex,
        ip: ip.parse().unwrap(),
        prefix_len,
    };

    Snapshot {
        links: vec![
            link(1, "lo", 65_536, None, true, true),
            link(2, "eth7", 1500, Some([0x52, 0x54, 0, 1, 2, 3]), true, false),
        ],
        addresses: vec![
            address(1, "127.0.0.1", 8),
            address(2, "192.0.2.2", 24),
            address(2, "fe80::2", 64),
        ],
    }
}

fn settings(addrs: &[&str], netdev: Option<&str>) -> Settings {
    let config = Config {
        addr: addrs.iter().map(|addr| addr.parse().unwrap()).collect(),
        netdev: netdev.map(str::to_owned),
        ..Config::default()
    };
    config.try_into().unwrap()
}

#[test]
fn a_given_address_brings_its_interface() {
    let (settings, snapshot) = (settings(&["127.0.7.9"], None), snapshot());
    let source = Source::choose(&settings, &snapshot, None).unwrap();
    assert_eq!(source.netdev(), "lo");
    let info = identify(&settings, &source, &snapshot);
    assert_eq!(
        (info.netdev_mtu, info.active_mtu, info.port_active),
        (65_536, 4096, true)
    );
    assert_eq!(info.node_guid[0] & 3, 0);
    assert_eq!(source.wanted(&snapshot).unwrap()[0].ifname, "lo");
}

#[test]
fn an_interface_brings_its_addresses_and_its_hardware_address() {
    let (settings, mut snapshot) = (settings(&[], Some("eth7")), snapshot());
    let source = Source::choose(&settings, &snapshot, None).unwrap();
    let mut info = identify(&settings, &source, &snapshot);
    assert_eq!(info.node_guid, [0x50, 0x54, 0, 0xff, 0xfe, 1, 2, 3]);
    assert_eq!((info.active_mtu, info.port_active), (1024, true));
    assert_eq!(source.wanted(&snapshot).unwrap().len(), 2);

    snapshot.links[1].up = false;
    assert!(refresh(&mut info, &source, &snapshot));
    assert!(!info.port_active);
    snapshot.links.remove(1);
    assert!(!refresh(&mut info, &source, &snapshot));
    assert!(source.wanted(&snapshot).unwrap().is_empty());
}

#[test]
fn a_renamed_interface_is_the_same_and_one_of_its_name_its_heir() {
    let (settings, mut snapshot) = (settings(&[], Some("eth7")), snapshot());
    let mut source = Source::choose(&settings, &snapshot, None).unwrap();
    let mut info = identify(&settings, &source, &snapshot);
    let index = info.netdev_index;
    assert!(!source.follow(index, &snapshot));

    snapshot.links[1].name = "net9".into();
    assert!(source.follow(index, &snapshot) && !source.follow(index, &snapshot));
    assert!(!refresh(&mut info, &source, &snapshot));
    assert_eq!((info.netdev.as_str(), info.port_active), ("net9", true));
    let wanted = source.wanted(&snapshot).unwrap();
    assert!(wanted.len() == 2 && wanted[0].ifname == "net9");

    // Another one has the old name: it is none of ours.
    let mut other = snapshot.links[1].clone();
    (other.index, other.name) = (3, "eth7".into());
    snapshot.links.push(other);
    assert!(!source.follow(index, &snapshot));
    assert_eq!(source.wanted(&snapshot).unwrap().len(), 2);

    // Made again.
    snapshot.links.remove(1);
    assert!(!source.follow(index, &snapshot) && refresh(&mut info, &source, &snapshot));
    snapshot.links[1].name = "net9".into();
    assert!(!source.follow(index, &snapshot) && refresh(&mut info, &source, &snapshot));
    assert_eq!(info.netdev_index, 3);
}

#[test]
fn the_port_goes_with_its_first_address_unless_told_where_to_be() {
    let mut moved = snapshot();
    let mut other = moved.links[1].clone();
    (other.index, other.name, other.mtu) = (3, "eth8".into(), 2200);
    moved.links.push(other);
    moved.addresses[1].ifindex = 3;
    for (address, netdev, at, active_mtu) in [
        ("192.0.2.2", None, "eth8", 2048),
        ("192.0.2.2", Some("eth7"), "eth7", 1024),
        ("fe80::2%eth7", None, "eth7", 1024),
    ] {
        let (settings, before) = (settings(&[address], netdev), snapshot());
        let mut source = Source::choose(&settings, &before, None).unwrap();
        let mut info = identify(&settings, &source, &before);
        // Nowhere for now.
        let mut nowhere = before.clone();
        nowhere.addresses.clear();
        assert!(!source.follow(info.netdev_index, &nowhere));
        assert_eq!(source.follow(info.netdev_index, &moved), at == "eth8");
        assert!(!refresh(&mut info, &source, &moved));
        assert_eq!((info.netdev.as_str(), info.active_mtu), (at, active_mtu));
        let mut gone = moved.clone();
        gone.links.remove(1);
        assert!(!source.follow(info.netdev_index, &gone));
        assert_eq!(refresh(&mut info, &source, &gone), at == "eth7");
    }
}

#[test]
fn without_a_word_it_is_loopback_whatever_else_there_is() {
    let (settings, snapshot) = (settings(&[], None), snapshot());
    let source = Source::choose(&settings, &snapshot, "127.47.91.7".parse().ok()).unwrap();
    assert_eq!(source.netdev(), "lo");
    assert_eq!(source.fixed()[0].to_string(), "127.47.91.7");
    // The same device as if the address had been given.
    let given = Source::choose(&self::settings(&["127.47.91.7"], None), &snapshot, None);
    assert_eq!(given.unwrap(), source);
}

#[test]
fn the_smallest_interface_bounds_the_mtu() {
    let (settings, snapshot) = (settings(&["127.0.0.1", "192.0.2.2"], None), snapshot());
    let source = Source::choose(&settings, &snapshot, None).unwrap();
    assert_eq!(identify(&settings, &source, &snapshot).active_mtu, 1024);
}

#[test]
fn a_service_address_of_the_loopback_has_the_smallest_mtu_of_the_ways_out() {
    let mut snapshot = snapshot();
    snapshot.addresses.push(Address {
        ifindex: 1,
        ip: "198.51.100.7".parse().unwrap(),
        prefix_len: 32,
    });
    for given in [(vec!["198.51.100.7"], None), (vec![], Some("lo"))] {
        let settings = settings(&given.0, given.1);
        let source = Source::choose(&settings, &snapshot, None).unwrap();
        let mut info = identify(&settings, &source, &snapshot);
        assert_eq!(
            (info.netdev.as_str(), info.netdev_mtu, info.active_mtu),
            ("lo", 1500, 1024)
        );
        // There is no way out.
        let mut alone = snapshot.clone();
        alone.links[1].up = false;
        refresh(&mut info, &source, &alone);
        assert_eq!((info.netdev_mtu, info.active_mtu), (65_536, 4096));
    }
}

#[test]
fn what_does_not_exist_is_told() {
    let snapshot = snapshot();
    let error = Source::choose(&settings(&[], Some("eth9")), &snapshot, None).unwrap_err();
    assert!(error.to_string().contains("`eth9`"), "{error}");
    let error = Source::choose(&settings(&["203.0.113.5"], None), &snapshot, None).unwrap_err();
    assert!(
        error.to_string().contains("203.0.113.5 is not an address"),
        "{error}"
    );
}

#[test]
fn made_up_numbers_differ() {
    assert_ne!(made_up(b"127.0.0.1"), made_up(b"127.0.0.2"));
}
