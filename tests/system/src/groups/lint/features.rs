//! Group `lint`, continued: what this program and the product both depend on is built once.

use std::collections::{BTreeMap, BTreeSet};

use super::gate::LIMIT;
use crate::build;
use crate::harness::case::{Case, Stop};
use crate::harness::process;
use crate::lab::Lab;

/// These may be built twice: asking for the product's features would bring in libraries that this
/// program has no other use for.
const TWICE: [&str; 2] = ["crossterm", "num-traits"];

/// The features of each version of each library, as cargo lists them.
type Features = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("lint/features", |lab| {
        let ours = features(lab, &["xtask"])?;
        let products = features(lab, &build::ALL)?;
        match differing(&ours, &products) {
            found if found.is_empty() => Ok(()),
            found => Err(Stop::fail(format!(
                "{}\nis built twice: have tools/xtask/Cargo.toml ask for the product's features",
                found.join("\n")
            ))),
        }
    })]
}

/// What is built of all libraries where these packages are asked for.
fn features(lab: &mut Lab, packages: &[&str]) -> Result<Features, Stop> {
    let mut tree = build::cargo();
    tree.args(["tree", "--locked", "--edges", "normal,build"]);
    tree.args(["--prefix", "none", "--format", "{p}|{f}"]);
    for package in packages {
        tree.args(["--package", package]);
    }
    let listed = process::run(tree, &lab.case_dir()?, "tree", LIMIT)?;
    match listed.success() {
        true => Ok(read(&listed.out)),
        false => Err(Stop::with(listed.ending(), &[&listed])),
    }
}

/// A line is a library with its version, and perhaps a remark; then its features, and perhaps that
/// it has been listed before.
fn read(tree: &str) -> Features {
    let mut all = Features::new();
    for (library, features) in tree.lines().filter_map(|line| line.split_once('|')) {
        let name: Vec<&str> = library.split(' ').take(2).collect();
        let features = features.trim_end_matches(" (*)").split(',');
        all.entry(name.join(" "))
            .or_default()
            .extend(features.map(str::to_owned));
    }
    all
}

/// The libraries that both have with other features.
fn differing(ours: &Features, others: &Features) -> Vec<String> {
    let differs = |(name, features): (&String, &BTreeSet<String>)| {
        let others = others.get(name)?;
        let known = TWICE
            .iter()
            .any(|known| name.starts_with(&format!("{known} ")));
        let missing: Vec<_> = others.difference(features).map(String::as_str).collect();
        let beyond: Vec<_> = features.difference(others).map(String::as_str).collect();
        (features != others && !known).then(|| {
            let (missing, beyond) = (missing.join(","), beyond.join(","));
            format!("{name} (the product has [{missing}], this program [{beyond}] beyond it)")
        })
    };
    ours.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_twice_is_named() {
        let ours =
            read("xtask v0.2.0 (/tools/xtask)|\nsyn v2.0.1 (proc-macro)|full\nlibc v0.2.1|std\n");
        let products = read(
            "ferroce v0.2.0|\nsyn v2.0.1|fold,full\nlibc v0.2.1|std (*)\nsyn v3.0.0|x\nlibc v0.2.1|std\n",
        );
        let found = differing(&ours, &products);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("syn v2.0.1 (the product has [fold],"));
        assert!(differing(&products, &products).is_empty());
    }

    #[test]
    fn what_may_be_built_twice_is_not() {
        let (ours, products) = (read("crossterm v0.1|"), read("crossterm v0.1|events"));
        assert!(differing(&ours, &products).is_empty());
    }
}
