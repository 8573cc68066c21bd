//! Group `ibta`, the report as a page: what a browser makes of it, with tests that passed and
//! failed, that were not applicable and inconclusive.
//!
//! The results are those of runs on the simulated device, kept as JSON with their captures, and put
//! together here; the verdicts that such a run does not have are written into copies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::{FAILING, LIMIT, run_in};
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;

/// For a browser to start, show a page and end, on a machine with other things to do.
const BROWSER_LIMIT: Duration = Duration::from_secs(120);
/// A test that passes, and one of management.
const PASSING: [&str; 2] = ["C09_142_01", "C14_024_06_CA_04"];
/// The one that fails.
const FAILED: &str = "C09_060_09";
/// What the copies are called.
const OPEN: &str = "OPEN_01";
const ABSENT: &str = "ABSENT_01";
/// Bytes that a picture has at the least that shows anything.
const PICTURE: usize = 10_000;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("ibta/page/a browser shows it", shown),
        Case::new("ibta/page/its script filters", filtered),
        Case::new("ibta/page/light and dark", light_and_dark),
        Case::new("ibta/page/a run writes it", written),
        Case::new("ibta/page/no place for it", no_place),
    ]
}

/// A page about four tests, one of each verdict but ERROR.
fn page(lab: &mut Lab) -> Result<PathBuf, Stop> {
    let dir = lab.case_dir()?;
    let passing = ["run", "--sim", "--json", "passed.json", "--pcap", "packets"];
    ended(
        &run_in(lab, &dir, &[&passing[..], &PASSING].concat(), LIMIT)?,
        0,
    )?;

    let failing = ["--json", "failed.json", "--pcap", "packets"];
    ended(&run_in(lab, &dir, &[FAILING, &failing].concat(), LIMIT)?, 1)?;

    let mut tests = super::results(&dir.join("passed.json"))?;
    tests.extend(super::results(&dir.join("failed.json"))?);

    for (id, verdict, reason) in [
        (OPEN, "INCONCLUSIVE", "port 2 has no <cable>"),
        (ABSENT, "N/A", "a port with one lane"),
    ] {
        let mut copy = tests[0].clone();
        copy["id"] = json!(id);
        copy["result"] = json!(verdict);
        copy["reason"] = json!(reason);
        tests.push(copy);
    }

    let document = json!({"device": "one & <only>", "tests": tests});
    fs::write(dir.join("all.json"), document.to_string()).context("all.json")?;

    let args = ["report", "all.json", "--html", "report.html"];
    ended(&run_in(lab, &dir, &args, LIMIT)?, 0)?;
    Ok(dir.join("report.html"))
}

fn ended(finished: &Finished, code: i32) -> Ending {
    match finished.code() == Some(code) {
        true => Ok(()),
        false => Err(Stop::with(format!("must end with {code}"), &[finished])),
    }
}

/// Chromium without a window, with a profile of its own, and nothing of what it would ask the
/// network for by itself.
fn browser(dir: &Path, name: &str, args: &[&str], url: &str) -> Result<Finished, Stop> {
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-background-networking", "--disable-sync"])
        .args(["--disable-component-update", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", dir.join(name).display()))
        .args(args)
        .arg(url)
        .current_dir(dir);
    let finished = process::run(command, dir, name, BROWSER_LIMIT)?;
    match finished.success() {
        true => Ok(finished),
        false => Err(Stop::with("the browser fails", &[&finished])),
    }
}

/// The page's elements as they are when its script has run.
fn dom(page: &Path, name: &str, anchor: &str) -> Result<String, Stop> {
    let dir = page.parent().context("a page in a directory")?;
    let url = format!("file://{}{anchor}", page.display());
    Ok(browser(dir, name, &["--dump-dom"], &url)?.out)
}

/// The opening tag of the part of a test.
fn part<'a>(dom: &'a str, id: &str) -> &'a str {
    let place = dom.find(&format!("id=\"{id}\""));
    let begin = place.and_then(|place| dom[..place].rfind('<'));
    let tag = begin.and_then(|begin| dom[begin..].split_once('>'));
    tag.map_or("", |(tag, _)| tag)
}

/// Everything of a test's part.
fn body<'a>(dom: &'a str, id: &str) -> &'a str {
    let place = dom.find(&format!("id=\"{id}\""));
    let rest = place.map_or("", |place| &dom[place..]);
    rest.split("class=\"test\"").next().unwrap_or_default()
}

fn shown(lab: &mut Lab) -> Ending {
    let page = page(lab)?;
    let text = fs::read_to_string(&page).context("the page")?;
    let dom = dom(&page, "dom", "")?;

    for (id, verdict) in [
        (PASSING[0], "pass"),
        (PASSING[1], "pass"),
        (FAILED, "fail"),
        (OPEN, "inconclusive"),
        (ABSENT, "na"),
    ] {
        let (tag, all) = (part(&dom, id), body(&dom, id));
        expect(tag.contains(&format!("data-verdict=\"{verdict}\"")), || {
            format!("{id} must be shown as {verdict}: {tag}")
        })?;
        let missing = [
            "<svg ",
            "class=\"life\"",
            "<table class=\"packets\">",
            "<b>BTH</b> OpCode",
            "<ol class=\"steps\">",
            "<table class=\"assertions\">",
            ".pcapng\"",
        ];

        let missing = missing.into_iter().find(|what| !all.contains(what));
        expect(missing.is_none(), || {
            format!("{id}: there is no {}", missing.unwrap_or_default())
        })?;
    }

    // What matters is in view, in words that are the device's and never markup.
    let opened = [part(&dom, FAILED), part(&dom, OPEN)].map(|tag| tag.contains(" open"));
    expect(
        opened == [true, true] && !part(&dom, ABSENT).contains(" open"),
        || "what failed or is open must be unfolded, nothing else".to_owned(),
    )?;

    expect(body(&dom, FAILED).contains("✗ v1c09-060#07"), || {
        "the sequence must say where the assertion failed".to_owned()
    })?;
    expect(
        dom.contains("port 2 has no &lt;cable&gt;") && dom.contains("one &amp; &lt;only&gt;"),
        || "texts must stand there as they are".to_owned(),
    )?;

    expect(body(&dom, PASSING[0]).contains(">1.084 s</text>"), || {
        "a wait must be in the sequence".to_owned()
    })?;
    nothing_else_is_asked_for(&page, &text)
}

/// All that the page refers to is a capture beside it, which is there; and a browser is told to
/// fetch nothing.
fn nothing_else_is_asked_for(page: &Path, text: &str) -> Ending {
    expect(text.contains("default-src 'none'"), || {
        "the page must forbid to fetch anything".to_owned()
    })?;

    for attribute in ["src=", "href=", "url(", "@import"] {
        for (at, _) in text.match_indices(attribute) {
            let value = text[at + attribute.len()..].trim_start_matches('"');
            let value = value.split(['"', '>', ' ', ')']).next().unwrap_or_default();
            let beside = page.with_file_name(value).is_file() && value.ends_with(".pcapng");
            let inside = value.starts_with('#') || value.starts_with("data:");
            expect(beside || inside, || {
                format!("the page asks for {attribute}{value}")
            })?;
        }
    }

    Ok(())
}

/// By verdict, as an address says it; of a test that is named the part is unfolded.
fn filtered(lab: &mut Lab) -> Ending {
    let page = page(lab)?;
    let seen = |dom: &str| {
        let ids = [PASSING[0], PASSING[1], FAILED, OPEN, ABSENT];
        let hidden = |id: &&&str| part(dom, id).contains(" hidden");
        let hidden: Vec<&str> = ids.iter().filter(hidden).copied().collect();
        (
            hidden.len(),
            dom.contains(&format!("{} of 5 shown", 5 - hidden.len())),
        )
    };

    expect(seen(&dom(&page, "all", "")?) == (0, true), || {
        "all tests must be shown at first".to_owned()
    })?;
    let bad = dom(&page, "bad", "#verdict=fail,inconclusive")?;
    expect(
        seen(&bad) == (3, true) && !part(&bad, FAILED).contains(" hidden"),
        || "only what failed or is open must be shown".to_owned(),
    )?;

    let one = dom(&page, "one", &format!("#{}", PASSING[0]))?;
    expect(
        part(&one, PASSING[0]).contains(" open") && !part(&one, FAILED).contains(" open"),
        || "the test that is named must be unfolded, and it alone".to_owned(),
    )
}

/// Pictures of it in both schemes show something, and not the same.
fn light_and_dark(lab: &mut Lab) -> Ending {
    let page = page(lab)?;
    let dir = page.parent().context("a page in a directory")?;
    let mut pictures = Vec::new();
    for (name, scheme) in [("dark", 0), ("light", 1)] {
        let settings = format!("--blink-settings=preferredColorScheme={scheme}");
        let shot = format!("--screenshot={}", dir.join(format!("{name}.png")).display());
        let url = format!("file://{}", page.display());
        browser(
            dir,
            name,
            &[&settings, &shot, "--window-size=1200,1500"],
            &url,
        )?;
        pictures.push(fs::read(dir.join(format!("{name}.png"))).context("a picture")?);
    }

    expect(
        pictures.iter().all(|picture| picture.len() > PICTURE),
        || "the pictures must show something".to_owned(),
    )?;

    expect(pictures[0] != pictures[1], || {
        "dark must not be light".to_owned()
    })
}

/// `run --html`: the page, and a capture of every test beside it, which tshark reads, with the
/// steps as comments.
fn written(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let args = ["run", FAILED, "--sim", "--html", "made.html"];
    ended(&run_in(lab, &dir, &args, LIMIT)?, 0)?;
    let text = fs::read_to_string(dir.join("made.html")).context("made.html")?;
    let capture = format!("made-packets/{FAILED}.pcapng");
    expect(text.contains(&format!("href=\"{capture}\"")), || {
        format!("the page must lead to {capture}")
    })?;
    let comments = super::tshark(&dir, &capture, &["frame.comment"])?;
    expect(
        comments.iter().any(|comment| comment.contains("step 7: ")),
        || format!("the steps must be in the capture, there are {comments:?}"),
    )?;

    let none: Vec<Value> = Vec::new();
    let nothing = json!({"device": "none", "tests": none});
    fs::write(dir.join("nothing.json"), nothing.to_string()).context("nothing.json")?;
    let args = ["report", "nothing.json", "--html", "nothing.html"];
    ended(&run_in(lab, &dir, &args, LIMIT)?, 0)?;
    let finished = run_in(
        lab,
        &dir,
        &["report", "absent.json", "--html", "x.html"],
        LIMIT,
    )?;
    ended(&finished, 2)?;
    expect(finished.err.contains("absent.json"), || {
        format!("must say what is missing: {}", finished.err)
    })
}

/// A report that there is no place for, this page or another, is known of before the first test.
fn no_place(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    fs::create_dir(dir.join("in-the-way")).context("in-the-way")?;
    for report in ["--html", "--json", "--junit"] {
        let args = ["run", FAILED, "--sim", report, "in-the-way"];
        let finished = run_in(lab, &dir, &args, LIMIT)?;
        ended(&finished, 2)?;
        let told = finished.err.contains("in-the-way") && !finished.out.contains(FAILED);
        expect(told, || {
            format!("{report}: {}{}", finished.out, finished.err)
        })?;
    }

    Ok(())
}
