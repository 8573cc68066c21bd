//! `cargo xtask coverage`: which lines the tests of `cargo test` reach, crate by crate.
//!
//! What stock programs reach beyond that is not counted: they load the product as it is installed.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, bail};
use comfy_table::Table;
use serde::Deserialize;

use ferroce_system::build;
use ferroce_system::cargo_tool;
use ferroce_system::packages;

/// What `cargo llvm-cov --json` says.
#[derive(Deserialize)]
struct Export {
    data: Vec<Data>,
}

#[derive(Deserialize)]
struct Data {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    lines: Lines,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Lines {
    count: u64,
    covered: u64,
}

/// Runs the tests and shows the table; true if none failed.
pub(crate) fn run() -> Result<bool> {
    packages::ensure(packages::HEADERS)?;
    ensure_installed()?;
    let mut command = build::cargo();
    command.args([
        "llvm-cov",
        "--workspace",
        "--locked",
        "--json",
        "--summary-only",
    ]);

    command.arg("--output-path");
    let path = build::scratch("coverage")?.join("coverage.json");
    let status = command.arg(&path).status().context("cargo llvm-cov")?;
    if !status.success() {
        return Ok(false);
    }

    let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let export = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    show(&by_crate(&export));
    Ok(true)
}

/// Lines of each package's directory; `src` ends its name.
fn by_crate(export: &Export) -> BTreeMap<String, Lines> {
    let root = format!("{}/", build::workspace().display());
    let mut crates: BTreeMap<String, Lines> = BTreeMap::new();
    for file in export.data.iter().flat_map(|data| &data.files) {
        let path = file.filename.strip_prefix(&root);
        let name = path.and_then(|path| path.split("/src/").next());
        let sum = crates
            .entry(name.unwrap_or("elsewhere").to_owned())
            .or_default();
        sum.count += file.summary.lines.count;
        sum.covered += file.summary.lines.covered;
    }
    crates
}

fn show(crates: &BTreeMap<String, Lines>) {
    let percent = |lines: &Lines| match lines.count {
        0 => "-".to_owned(),
        count => format!("{:.1} %", lines.covered as f64 * 100.0 / count as f64),
    };

    let mut table = Table::new();
    table.set_header(["crate", "lines", "reached"]);
    let mut all = Lines::default();
    for (name, lines) in crates {
        table.add_row([name.clone(), lines.count.to_string(), percent(lines)]);
        all.count += lines.count;
        all.covered += lines.covered;
    }

    println!("{table}");
    println!(
        "{} of {} lines are reached by cargo test",
        percent(&all),
        all.count
    );
}

/// cargo-llvm-cov, and the tools of the compiler that it goes by.
fn ensure_installed() -> Result<()> {
    cargo_tool::ensure("llvm-cov")?;
    let mut tools = Command::new("rustup");
    tools
        .args(["component", "add", "llvm-tools"])
        .current_dir(build::workspace());
    if !tools.status().context("rustup")?.success() {
        bail!("rustup cannot add llvm-tools, which cargo-llvm-cov needs");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_summed_up_by_crate() {
        let root = build::workspace().display();
        let file = |path: &str, count: u32, covered: u32| {
            format!(
                r#"{{"filename":"{path}","summary":{{"lines":{{"count":{count},"covered":{covered},"percent":1}}}}}}"#
            )
        };

        let files = [
            file(&format!("{root}/provider/wire/src/bth.rs"), 10, 5),
            file(&format!("{root}/provider/wire/src/cm/mod.rs"), 2, 2),
            file(&format!("{root}/cabi/src/lib.rs"), 4, 0),
            file("/usr/src/other.rs", 1, 1),
        ];

        let text = format!(
            r#"{{"data":[{{"files":[{}],"totals":{{}}}}]}}"#,
            files.join(",")
        );
        let crates = by_crate(&serde_json::from_str(&text).unwrap());
        let found: Vec<_> = crates
            .iter()
            .map(|(name, lines)| (name.as_str(), lines.count, lines.covered))
            .collect();

        assert_eq!(
            found,
            [
                ("cabi", 4, 0),
                ("elsewhere", 1, 1),
                ("provider/wire", 12, 7)
            ]
        );
    }
}
