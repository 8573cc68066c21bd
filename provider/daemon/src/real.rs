//! The host's real RDMA devices: ours must not take their names, and they stay visible beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names in a directory; none if it does not exist. Links to `/dev/null` are those of the
/// machine's own ferroce device, which is no real one.
pub(crate) fn entries(dir: impl AsRef<Path>) -> BTreeSet<String> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| !fs::read_link(entry.path()).is_ok_and(|to| to == Path::new("/dev/null")))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The first number that no real `uverbsN` has.
pub(crate) fn free_uverbs_number() -> u32 {
    let mut taken = entries("/sys/class/infiniband_verbs");
    taken.extend(entries("/dev/infiniband"));
    first_free(&taken)
}

fn first_free(taken: &BTreeSet<String>) -> u32 {
    (0..)
        .find(|n| !taken.contains(&format!("uverbs{n}")))
        .unwrap_or(0)
}

/// The first number above those of all real `umadN`: a device of ours takes as many as it has
/// ports, from there.
pub(crate) fn free_umad_number() -> u32 {
    first_above(&entries("/dev/infiniband"))
}

fn first_above(taken: &BTreeSet<String>) -> u32 {
    taken
        .iter()
        .filter_map(|name| name.strip_prefix("umad")?.parse::<u32>().ok())
        .max()
        .map_or(0, |n| n.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_own_device_is_no_real_one() {
        let temp = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", temp.path().join("uverbs0")).unwrap();
        fs::write(temp.path().join("uverbs1"), "").unwrap();
        assert_eq!(entries(temp.path()), ["uverbs1".to_owned()].into());
    }

    #[test]
    fn the_first_gap_is_taken() {
        let taken = ["uverbs0", "uverbs1", "uverbs3", "abi_version"].map(str::to_owned);
        assert_eq!(first_free(&taken.into()), 2);
        assert_eq!(first_free(&BTreeSet::new()), 0);
        assert_eq!(first_above(&taken_umads()), 8);
        assert_eq!(first_above(&BTreeSet::new()), 0);
    }
    fn taken_umads() -> BTreeSet<String> {
        ["umad0", "umad7", "issm9", "umadx"]
            .map(str::to_owned)
            .into()
    }
}
