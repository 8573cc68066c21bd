//! Results as one page of HTML for people, that asks for no other file: an overview with filters,
//! and of each test its assertions, the sequence of packets as a drawing, its steps, and its
//! packets with all headers. Captures lie beside it and are linked to.
//!
//! All of it is there without a script; the script filters.

mod decode;
mod ladder;
mod mads;
mod markup;
mod section;

use super::Sums;
use super::about::About;
use crate::run::{TestResult, Verdict};
use crate::trace::Trace;
use anyhow::{Context, Result};
use markup::{Text, time};
use section::class;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

const STYLE: &str = include_str!("page.css");
/// A page that grows is written again that often, for those who end a long run early.
const OFTEN: Duration = Duration::from_secs(10);
/// In the order of the overview.
const VERDICTS: [Verdict; 5] = [
    Verdict::Fail,
    Verdict::Error,
    Verdict::Inconclusive,
    Verdict::NotApplicable,
    Verdict::Pass,
];

/// A page that grows with each test.
pub struct Html {
    path: PathBuf,
    device: String,
    about: About,
    sections: String,
    written: Option<Instant>,
}

/// Of a family of tests: how many ended how, and how long they took.
#[derive(Default)]
struct Group {
    counts: [usize; VERDICTS.len()],
    time: Duration,
}

impl Html {
    /// A page about a device of this name, for this file.
    pub fn new(path: &Path, device: &str, about: &About) -> Html {
        Html {
            path: path.to_owned(),
            device: device.to_owned(),
            about: about.clone(),
            sections: String::new(),
            written: None,
        }
    }

    /// Where captures go if nobody says another place: a directory beside the page.
    pub fn captures(path: &Path) -> PathBuf {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!("{name}-packets"))
    }

    /// Adds a test, with its packets.
    pub fn add(&mut self, test: &TestResult, trace: &Trace) {
        let capture = (test.packets.as_ref()).map(|packets| link(&self.path, packets));
        self.sections += &section::section(test, trace, capture.as_deref());
    }

    /// Writes what there is of it, if that was not done just now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_now_and_then(&mut self, tests: &[TestResult]) -> Result<()> {
        match self.written {
            Some(written) if written.elapsed() < OFTEN => Ok(()),
            _ => self.write(tests),
        }
    }

    /// Writes the page about these tests, all of which were added.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, tests: &[TestResult]) -> Result<()> {
        self.written = Some(Instant::now());
        let page = [&self.head(tests), &self.sections, FOOT].concat();
        fs::write(&self.path, page).with_context(|| format!("{}", self.path.display()))
    }

    fn head(&self, tests: &[TestResult]) -> String {
        let sums = Sums::of(tests);
        let took: Duration = tests.iter().map(|test| test.time).sum();
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n\
             <meta name=viewport content=\"width=device-width,initial-scale=1\">\n\
             <meta name=color-scheme content=\"light dark\">\n\
             <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
             <link rel=icon href=\"data:,\">\n\
             <title>{failed} failed, {passed} passed: {device}</title>\n<style>{STYLE}</style></head>\n<body>\n<header>\n\
             <h1>InfiniBand conformance: <span id=device>{device}</span></h1>\n\
             <p>tests: {all}, in {time}; ferroce-ibta {version}</p>\n",
            failed = sums.failed,
            passed = sums.passed,
            device = Text(&self.device),
            all = tests.len(),
            time = Text(time(took)),
            version = env!("CARGO_PKG_VERSION"),
        );

        out += &filters(tests);
        out += &tested(&self.about);
        out + &groups(tests)
    }
}

const FOOT: &str = concat!(
    "</main>\n<script>",
    include_str!("page.js"),
    "</script>\n</body></html>\n"
);

fn count(tests: &[TestResult], verdict: Verdict) -> usize {
    tests.iter().filter(|test| test.result == verdict).count()
}

/// A bar of all verdicts, a button for each, and the fields to look for a test.
fn filters(tests: &[TestResult]) -> String {
    let mut out = "<div class=bar>".to_owned();
    for verdict in VERDICTS {
        let n = count(tests, verdict);
        if n > 0 {
            let _ = write!(out, "<i class={} style=\"flex:{n}\"></i>", class(verdict));
        }
    }

    out += "</div>\n<div id=filters>\n";

    for verdict in VERDICTS {
        let n = count(tests, verdict);
        let _ = writeln!(
            out,
            "<button type=button class=\"verdict {}\" data-verdict={} aria-pressed=true{}>{} <b>{n}</b></button>",
            class(verdict),
            class(verdict),
            if n == 0 { " disabled" } else { "" },
            verdict.name()
        );
    }

    let mut groups: Vec<&str> = tests.iter().map(|test| test.family.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    out += "<select id=group aria-label=group><option value=\"\">all groups</option>";
    for group in groups {
        let _ = write!(out, "<option>{}</option>", Text(group));
    }
    out += "</select>\n<input id=search type=search placeholder=\"name, statement or words\" aria-label=search>\n\
            <button type=button id=open>open all shown</button><button type=button id=close>close all</button>\n\
            <span id=shown></span>\n</div>\n</header>\n<main>\n";
    out
}

/// What was tested, from where, and by what.
fn tested(about: &About) -> String {
    let rows = about.properties().into_iter();
    let rows = rows.map(|(name, value)| format!("<tr><th>{name}<td>{}\n", Text(value)));
    match rows.collect::<String>() {
        none if none.is_empty() => none,
        rows => format!(
            "<details id=about open><summary>What was tested</summary>\n<table>\n{rows}</table></details>\n"
        ),
    }
}

/// A line for each group of tests.
fn groups(tests: &[TestResult]) -> String {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for test in tests {
        let group = groups.entry(&test.family).or_default();
        if let Some(at) = VERDICTS.iter().position(|verdict| *verdict == test.result) {
            group.counts[at] += 1;
        }
        group.time += test.time;
    }

    let mut out = "<details id=groups><summary>Groups</summary>\n<table>\n<tr><th>group".to_owned();
    for verdict in VERDICTS {
        let _ = write!(out, "<th>{}", verdict.name());
    }
    out += "<th>time\n";

    for (name, group) in groups {
        let _ = write!(
            out,
            "<tr><td><a href=\"#\" data-group=\"{0}\">{0}</a>",
            Text(name)
        );

        for (count, verdict) in group.counts.iter().zip(VERDICTS) {
            match count {
                0 => out += "<td>",
                _ => {
                    let _ = write!(
                        out,
                        "<td><span class=\"verdict {}\">{count}</span>",
                        class(verdict)
                    );
                }
            }
        }

        let _ = writeln!(out, "<td>{}", Text(time(group.time)));
    }

    out + "</table></details>\n"
}

/// A file as a page elsewhere names it: by the way from the page's directory, so that both can be
/// moved together.
fn link(page: &Path, file: &Path) -> String {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (page, file) = (whole(page), whole(file));
    let dir = page.parent().unwrap_or(&page);
    let common = dir
        .components()
        .zip(file.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = dir.components().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(file.components().skip(common)).collect();

    // What a URL would take for something else.
    let mut url = String::new();
    for letter in way.to_string_lossy().chars() {
        match letter {
            '%' | '?' | '#' | ' ' => {
                let _ = write!(url, "%{:02x}", letter as u32);
            }
            other => url.push(other),
        }
    }

    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::about::Tested;

    /// The colours of a scheme: `--name:#rrggbb`, or with three digits.
    fn colours(style: &str) -> BTreeMap<&str, [f64; 3]> {
        let named = style.split("--").skip(1).filter_map(|part| {
            let (name, value) = part.split_once(":#")?;
            let digits: String = value.chars().take_while(char::is_ascii_hexdigit).collect();
            let width = digits.len() / 3;
            let channel = |n: usize| {
                let digits = digits[n * width..(n + 1) * width].repeat(3 - width);
                f64::from(u8::from_str_radix(&digits, 16).unwrap()) / 255.0
            };
            Some((name, [0, 1, 2].map(channel)))
        });
        named.collect()
    }

    /// The contrast of two colours as the Web Content Accessibility Guidelines reckon it, 1 to 21.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let linear = |c: f64| match c <= 0.04045 {
            true => c / 12.92,
            false => ((c + 0.055) / 1.055).powf(2.4),
        };
        let luminance = |c: [f64; 3]| {
            let [red, green, blue] = c.map(linear);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_colour_of_a_text_can_be_read_in_light_and_in_dark() {
        const TEXTS: [&str; 10] = [
            "fore",
            "soft",
            "link",
            "pass",
            "fail",
            "error",
            "inconclusive",
            "na",
            "tester",
            "devicecolour",
        ];

        let (light, dark) = STYLE.split_once("prefers-color-scheme:dark").unwrap();
        for (scheme, style) in [("light", light), ("dark", dark)] {
            let colours = colours(style);
            for text in TEXTS {
                for ground in ["back", "panel"] {
                    let contrast = contrast(colours[text], colours[ground]);
                    // What the guidelines ask of small text (AA).
                    assert!(
                        contrast >= 4.5,
                        "{scheme}: {text} on {ground} has {contrast:.2}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_page_is_whole_without_its_script() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.html");
        let tests = crate::suite::all();
        let test = tests.iter().find(|test| test.id == "C09_060_09").unwrap();
        let mut backend = crate::sim::SimBackend::default();
        let (result, trace) = crate::execute::execute(test, &mut backend, Box::new(|_| {}));
        let about = About::now(vec![Tested {
            name: "<device>".to_owned(),
            ..Tested::default()
        }]);
        let mut page = Html::new(&path, &about.device(), &about);
        page.add(&result, &trace);
        page.write(&[result]).unwrap();

        let text = fs::read_to_string(&path).unwrap();
        let whole = text.split("<script>").next().unwrap();
        for due in [
            "<span id=device>&lt;device&gt;</span>",
            "<th>device<td>&lt;device&gt;",
            "<th>began<td>2",
            "data-verdict=pass data-group=\"C09-060\"",
            "RC COMPARE &amp; SWAP · PSN 0xfffffe",
            "<b>AtomicETH</b> VA 0x999000",
            "Poll for the completion of the first request",
        ] {
            assert!(whole.contains(due), "{due} is missing");
        }

        assert!(!text.contains("<device>"));
    }

    #[test]
    fn a_capture_is_named_from_where_the_page_is() {
        let from = |page: &str, file: &str| link(Path::new(page), Path::new(file));
        assert_eq!(
            from("/a/r.html", "/a/r-packets/T.pcapng"),
            "r-packets/T.pcapng"
        );
        assert_eq!(
            from("/a/b/r.html", "/a/c #1/T.pcapng"),
            "../c%20%231/T.pcapng"
        );
        assert_eq!(from("r.html", "p/T.pcapng"), "p/T.pcapng");
    }
}
