//! Seeds that are made: of captured packets and messages, and by what emits ours. They are kept in
//! `seeds`, as `made-NAME`, and compared here with what would be made today. A change of format
//! shows here, and in `replay`, where each must still get past the first check.
//!
//! `FERROCE_WRITE_SEEDS=1 cargo test -p ferroce-fuzz --test made` writes them anew.

mod capture;
mod daemon;
mod management;
mod peers;
mod rdma_cm;
mod replay;
mod steps;
mod umad;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ferroce_fuzz::TARGETS;

/// Inputs by name.
type Seeds = BTreeMap<String, Vec<u8>>;

/// What names begin with.
const MADE: &str = "made-";

/// The inputs of a target.
fn make(target: &str) -> Seeds {
    match target {
        "agent" => management::agent(),
        "capture" => capture::capture(),
        "cm" => management::cm(),
        "control" => daemon::control(),
        "exs" => peers::exs(),
        "exs_hello" => peers::exs_hello(),
        "icrc" => wire::icrc(),
        "identification" => wire::identification(),
        "link" => wire::link(),
        "netlink" => daemon::netlink(),
        "packet" => wire::packet(),
        "rdma_cm" => rdma_cm::rdma_cm(),
        "rdma_cm_frames" => rdma_cm::rdma_cm_frames(),
        "replay_file" => replay::replay_file(),
        "ring" => peers::ring(),
        "rmpp" => management::rmpp(),
        "sa" => management::sa(),
        "tag_matching" => peers::tag_matching(),
        "transport" => peers::transport(),
        "umad" => umad::umad(),
        "umad_frames" => umad::umad_frames(),
        other => panic!("nothing is made for {other}"),
    }
}

#[test]
fn seeds_are_as_they_are_made() {
    let write = std::env::var_os("FERROCE_WRITE_SEEDS").is_some();
    for target in TARGETS {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("seeds")
            .join(target.name);
        let made = make(target.name);
        if write {
            fs::create_dir_all(&dir).unwrap();
            for name in kept(&dir).keys() {
                fs::remove_file(dir.join(format!("{MADE}{name}"))).unwrap();
            }
            for (name, bytes) in &made {
                fs::write(dir.join(format!("{MADE}{name}")), bytes).unwrap();
            }
        }

        let kept = kept(&dir);
        let names = |seeds: &Seeds| seeds.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&kept), names(&made), "{}", dir.display());
        for (name, bytes) in &made {
            assert!(
                kept[name] == *bytes,
                "{} has changed: {name}",
                dir.display()
            );
        }
    }
}

/// Those of a directory.
fn kept(dir: &Path) -> Seeds {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let named = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?.strip_prefix(MADE)?.to_owned();
        Some((name, fs::read(path).unwrap()))
    });
    named.collect()
}

/// A file of this repository.
fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}
