use super::*;

#[test]
fn a_file_says_what_the_command_line_says() {
    let config: Config = toml::from_str(
        r#"
        addr = ["127.0.0.1", "::1", "fe80::1%eth0"]
        name = "ferroce7"
        idle_exit = 30
        receive_buffer = 65536
        stretch_timeouts = 50
        congestion = "dcqcn"
        log = "debug"
        "#,
    )
    .unwrap();
    let settings = Settings::try_from(config).unwrap();
    assert_eq!(settings.addrs.len(), 3);
    assert_eq!(settings.addrs[2].to_string(), "fe80::1%eth0");
    assert_eq!(settings.name, "ferroce7");
    assert_eq!(settings.idle_exit, Some(Duration::from_secs(30)));
    assert_eq!(settings.stretch_timeouts, 50);
    assert_eq!(settings.congestion, CongestionControl::Dcqcn);
}

#[test]
fn no_seconds_mean_to_stay() {
    let over = Config {
        idle_exit: Some(0),
        ..Config::default()
    };
    let file = toml::from_str("idle_exit = 30").unwrap();
    let settings = Settings::try_from(over.over(file)).unwrap();
    assert_eq!(settings.idle_exit, None);
}

#[test]
fn mistakes_are_refused_with_a_word() {
    for (text, word) in [
        (r#"addr = ["127.0.0.300"]"#, "not an IP address"),
        (r#"addr = ["0.0.0.0"]"#, "one interface"),
        (r#"addr = ["fe80::1"]"#, "needs its interface"),
        (r#"addr = ["::ffff:1.2.3.4"]"#, "as an IPv4"),
        (r#"adr = ["127.0.0.1"]"#, "unknown field"),
        (r#"link_layer = "token ring""#, "unknown variant"),
        (r#"cable = ["127.0.0.1:7101"]"#, "is no cable"),
        (
            "receive_buffer = 0",
            "receive_buffer is 0: it can be 4096 to 1073741823 bytes",
        ),
        ("receive_buffer = -1", "receive_buffer is -1: it can be"),
        ("receive_buffer = 4095", "4096 to"),
        ("receive_buffer = 1073741824", "to 1073741823"),
        ("receive_buffer = \"8 MiB\"", "invalid type"),
        (
            r#"congestion = "hope""#,
            "unknown variant `hope`, expected `aimd` or `dcqcn`",
        ),
    ] {
        let error = toml::from_str::<Config>(text).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
    for name in ["", "a/b", "..", "a b", "twenty-letters-are-too-many"] {
        let config = Config {
            name: Some(name.into()),
            ..Config::default()
        };
        assert!(Settings::try_from(config).is_err(), "{name}");
    }
    for factor in [0, MAX_STRETCH + 1] {
        let config = Config {
            stretch_timeouts: Some(factor),
            ..Config::default()
        };
        let error = Settings::try_from(config).unwrap_err().to_string();
        assert!(error.contains("1 to 10000"), "{factor}: {error}");
    }
    let twice: Config = toml::from_str(r#"addr = ["127.0.0.1", "127.0.0.1"]"#).unwrap();
    assert!(
        Settings::try_from(twice)
            .unwrap_err()
            .to_string()
            .contains("twice")
    );
}

#[test]
fn an_infiniband_device_has_cables() {
    let read = |text: &str| Settings::try_from(toml::from_str::<Config>(text).unwrap());
    let settings = read(
        r#"
        link_layer = "infiniband"
        cable = ["127.0.0.1:7101=127.0.0.2:7101", "127.0.0.1:7102=127.0.0.3:7101"]
        addr = ["10.0.0.1"]
        "#,
    )
    .unwrap();
    assert_eq!((settings.cables.len(), settings.addrs.len()), (2, 1));
    assert_eq!(settings.ib_addrs, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
    for (text, word) in [
        (r#"link_layer = "infiniband""#, "1 to 8 ports"),
        (r#"cable = ["127.0.0.1:1=127.0.0.2:1"]"#, "link_layer"),
        (
            "link_layer = \"infiniband\"\naddr = [\"10.0.0.1\", \"10.0.0.2\"]\ncable = [\"127.0.0.1:1=127.0.0.2:1\"]",
            "too many",
        ),
        (
            "link_layer = \"infiniband\"\naddr = [\"fe80::1%eth0\"]\ncable = [\"127.0.0.1:1=127.0.0.2:1\"]",
            "no interface",
        ),
        (
            "link_layer = \"infiniband\"\nnetdev = \"lo\"\ncable = [\"127.0.0.1:1=127.0.0.2:1\"]",
            "leave out lo (--netdev",
        ),
        (
            "link_layer = \"infiniband\"\ncable = [\"127.0.0.1:1=127.0.0.2:1\", \"127.0.0.1:1=127.0.0.3:1\"]",
            "two cables",
        ),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn what_is_remembered_is_the_same_device() {
    for text in [
        "addr = [\"127.0.0.3\", \"fe80::1%eth0\"]\nname = \"soft1\"\nidle_exit = 5\nlog = \"debug\"\ngroup = \"rdma\"",
        "netdev = \"eth0\"\nreceive_buffer = 65536\nstretch_timeouts = 100\ncongestion = \"dcqcn\"",
        "link_layer = \"infiniband\"\ncable = [\"127.0.0.1:1=127.0.0.2:1\"]\naddr = [\"10.0.0.1\"]",
    ] {
        let config: Config = toml::from_str(text).unwrap();
        let settings = Settings::try_from(config.clone()).unwrap();
        let remembered = toml::to_string(&settings.remembered(&config.addr, "eth0")).unwrap();
        let again: Config = toml::from_str(&remembered).unwrap();
        assert_eq!(Settings::try_from(again).unwrap(), settings, "{remembered}");
    }
    // An interface that has been renamed.
    let config = Config {
        netdev: Some("eth0".into()),
        ..Config::default()
    };
    let settings = Settings::try_from(config).unwrap();
    assert_eq!(settings.remembered(&[], "net9").netdev.unwrap(), "net9");
    // An address that was found rather than given.
    let settings = Settings::try_from(Config::default()).unwrap();
    let found: AddrSpec = "127.0.0.1".parse().unwrap();
    assert_eq!(
        settings.remembered(std::slice::from_ref(&found), "lo").addr,
        [found]
    );
}

#[test]
fn the_command_line_wins() {
    let file: Config = toml::from_str(r#"addr = ["127.0.0.1"]"#).unwrap();
    let line = Config {
        netdev: Some("eth0".into()),
        ..Config::default()
    };
    let both = line.over(file.clone());
    assert!(both.addr.is_empty() && both.netdev.as_deref() == Some("eth0"));
    assert_eq!(Config::default().over(file.clone()), file);
}

#[test]
fn a_relative_directory_of_settings_is_ignored() {
    let first = |config: &str, home: Option<&str>| {
        let found = places(Some(config.into()), home.map(Into::into));
        found[0].display().to_string()
    };
    assert_eq!(first("/x", Some("/h")), "/x/ferroce/ferroce.toml");
    assert_eq!(first("x", Some("/h")), "/h/.config/ferroce/ferroce.toml");
    assert_eq!(first("./x", None), "/etc/ferroce/ferroce.toml");
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_place() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("ferroce.toml");
    for (text, at, word) in [
        (
            "name = \"a\"\nadr = [\"127.0.0.1\"]\n",
            "2:1",
            "unknown field",
        ),
        ("# é\nname = \"é\" 7\n", "2:12", ""),
        ("\n\n  idle_exit = \"x\"", "3:15", "invalid type"),
        ("addr = [\"127.0.0.1\", \"x\"]", "1:8", "not an IP address"),
    ] {
        fs::write(&path, text).unwrap();
        let error = Config::read(&path).unwrap_err().to_string();
        let place = format!("{}:{at}: ", path.display());
        assert!(error.starts_with(&place), "{text}: {error}");
        assert!(error.contains(word) && !error.contains('\n'), "{error}");
    }
}
