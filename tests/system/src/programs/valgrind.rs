//! Programs under Valgrind's memcheck, and which of its findings count.
//!
//! Every invalid access or use of undefined bytes counts, whosever it is: the programs are clean by
//! themselves. A leak counts if one of our libraries is among the callers. What memcheck calls
//! possibly lost does not: the memory of the engine's helper thread, which lives as long as the
//! process, looks like that once the process ends.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use roxmltree::{Document, Node};

/// How our libraries' file names begin.
const OURS: &str = "libferroce";

/// The words in front of a command; each process leaves its findings in `dir`.
pub(crate) fn command(dir: &Path) -> Vec<String> {
    let file = dir.join("memcheck-%p.xml");
    [
        "valgrind",
        "--quiet",
        // Our threads take turns with the program's; without this one may wait for seconds.
        "--fair-sched=try",
        // The other process of a test is an exec away, and leaves a report of its own.
        "--trace-children=yes",
        "--leak-check=full",
        "--num-callers=40",
        // Which calls were inlined is a fifth of what a short process takes, and nothing here goes
        // by it.
        "--read-inline-info=no",
        "--xml=yes",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("--xml-file={}", file.display())])
    .collect()
}

/// Which findings of the kind of leaks count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaks {
    /// Those of our libraries.
    Ours,
    /// None: the program leaves objects behind on purpose.
    Allowed,
}

/// What counts among the findings in `dir`, one text each, and how many processes reported.
pub(crate) fn findings(dir: &Path, leaks: Leaks) -> Result<(usize, Vec<String>)> {
    let mut reports = 0;
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "xml") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        found.extend(read(&text, leaks).with_context(|| format!("{}", path.display()))?);
        reports += 1;
    }
    Ok((reports, found))
}

/// Reads the report error by error: that of a process that was killed breaks off, and what it says
/// until then counts.
fn read(text: &str, leaks: Leaks) -> Result<Vec<String>> {
    const END: &str = "</error>";
    let mut found = Vec::new();
    for part in text.split_inclusive(END) {
        let Some(start) = part.find("<error>").filter(|_| part.ends_with(END)) else {
            continue;
        };
        let document = Document::parse(&part[start..]).context("an error that cannot be read")?;
        let error = document.root_element();
        if counts(&error, leaks) {
            found.push(describe(&error));
        }
    }
    Ok(found)
}

fn counts(error: &Node<'_, '_>, leaks: Leaks) -> bool {
    match text_of(error, "kind") {
        "Leak_PossiblyLost" | "Leak_StillReachable" => false,
        kind if kind.starts_with("Leak_") && leaks == Leaks::Allowed => false,
        kind if kind.starts_with("Leak_") => error
            .descendants()
            .filter(|node| node.has_tag_name("obj"))
            .filter_map(|object| Path::new(object.text()?).file_name()?.to_str())
            .any(|name| name.starts_with(OURS)),
        _ => true,
    }
}

fn describe(error: &Node<'_, '_>) -> String {
    let what = ["what", "xwhat"]
        .into_iter()
        .find_map(|tag| error.children().find(|child| child.has_tag_name(tag)))
        .map(|what| {
            what.descendants()
                .filter_map(|n| n.text())
                .next()
                .unwrap_or_default()
        })
        .unwrap_or_default();

    let frames = error
        .descendants()
        .filter(|node| node.has_tag_name("frame"))
        .take(12)
        .map(|frame| {
            format!(
                "\n    at {} ({}:{})",
                text_of(&frame, "fn"),
                text_of(&frame, "file"),
                text_of(&frame, "line")
            )
        });

    format!(
        "{}: {}{}",
        text_of(error, "kind"),
        what.trim(),
        frames.collect::<String>()
    )
}

fn text_of<'a>(node: &Node<'a, '_>, tag: &str) -> &'a str {
    node.children()
        .find(|child| child.has_tag_name(tag))
        .and_then(|child| child.text())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: &str, object: &str) -> String {
        format!(
            "<valgrindoutput><error><kind>{kind}</kind><what>told</what><stack><frame><obj>{object}</obj><fn>f</fn>\
             <file>a.rs</file><line>3</line></frame></stack></error></valgrindoutput>"
        )
    }

    #[test]
    fn accesses_count_everywhere_and_leaks_where_we_took_part() {
        let read = |kind, object| read(&report(kind, object), Leaks::Ours).unwrap().len();
        assert_eq!(read("InvalidRead", "/usr/lib/libc.so.6"), 1);
        assert_eq!(read("UninitCondition", "/x/libferroce-rdmav34.so"), 1);
        assert_eq!(read("Leak_DefinitelyLost", "/x/libferroce_provider.so"), 1);
        assert_eq!(read("Leak_DefinitelyLost", "/usr/bin/python3"), 0);
        assert_eq!(read("Leak_PossiblyLost", "/x/libferroce-rdmav34.so"), 0);
    }

    #[test]
    fn a_finding_says_where() {
        let found = &read(
            &report("InvalidWrite", "libferroce-shim.so"),
            Leaks::Allowed,
        )
        .unwrap()[0];
        assert_eq!(found, "InvalidWrite: told\n    at f (a.rs:3)");
    }

    #[test]
    fn a_report_that_breaks_off_counts_until_then() {
        let whole = report("InvalidRead", "x");
        let broken = format!("{whole}<error><kind>InvalidRead</kind><what>");
        assert_eq!(read(&broken, Leaks::Ours).unwrap().len(), 1);
        let leak = report("Leak_DefinitelyLost", "libferroce-shim.so");
        assert_eq!(read(&leak, Leaks::Allowed).unwrap().len(), 0);
    }
}
