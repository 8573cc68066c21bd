//! The page of all pictures, and their numbers.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Plot, draw};
use crate::bench::table::{LOADED, amount};

/// Under what it was measured.
pub(super) struct Conditions {
    /// Seconds since 1970.
    when: u64,
    kernel: String,
    processor: String,
    processors: usize,
    rounds: usize,
    seconds: u32,
    /// What others used of all processors: 0 to 1.
    others: f64,
    /// The kernel of the emulated guest in which it was, if it was in one.
    guest: Option<String>,
}

impl Conditions {
    pub(super) fn of(rounds: usize, seconds: u32, others: f64) -> Conditions {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let models = processors.lines().filter_map(|line| {
            let (name, model) = line.split_once(':')?;
            (name.trim() == "model name").then(|| model.trim().to_owned())
        });
        let models: Vec<String> = models.collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);

        Conditions {
            when: now.map_or(0, |since| since.as_secs()),
            kernel: kernel(),
            processor: models.first().cloned().unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            rounds,
            seconds,
            others,
            guest: None,
        }
    }

    /// In an emulated guest, with that kernel.
    pub(super) fn in_guest(self, kernel: String) -> Conditions {
        Conditions {
            guest: Some(kernel),
            ..self
        }
    }

    fn json(&self) -> Value {
        json!({
            "when": self.when, "kernel": self.kernel, "processor": self.processor,
            "processors": self.processors, "rounds": self.rounds,
            "seconds": self.seconds, "others": self.others, "guest": self.guest,
        })
    }
}

/// The release of the kernel that runs this.
pub(super) fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Linux {}, {} processors ({}), {} rounds by turns, {} s for each transfer; \
             others used {:.0} % of the processors",
            self.kernel,
            self.processors,
            self.processor,
            self.rounds,
            self.seconds,
            100.0 * self.others
        )?;
        if let Some(kernel) = &self.guest {
            write!(f, "; in an emulated guest, Linux {kernel}")?;
        }
        match self.others > LOADED {
            true => write!(f, ": too much for a judgement"),
            false => Ok(()),
        }
    }
}

/// Writes `index.html`, a file for each picture and `curves.json` to `dir`, and says so. `around`:
/// what there is to say of the place where it was measured.
pub(super) fn write(
    dir: &Path,
    plots: &[Plot],
    conditions: &Conditions,
    around: &str,
) -> Result<()> {
    let svg = |plot: &Plot| Ok((format!("{}.svg", plot.picture.file), draw::svg(plot)?));
    let mut files: Vec<(String, String)> = plots.iter().map(svg).collect::<Result<_>>()?;
    files.push(("index.html".to_owned(), html(plots, conditions, around)?));
    files.push(("curves.json".to_owned(), json(plots, conditions)?));
    for (name, text) in files {
        let file = dir.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }

    println!("{conditions}");
    println!("xtask: {}", dir.join("index.html").display());
    Ok(())
}

/// All of it in one file, which needs no other.
fn html(plots: &[Plot], conditions: &Conditions, around: &str) -> Result<String> {
    let mut body = String::new();
    for plot in plots {
        body += &format!(
            "<h2>{}</h2>\n{}\n{}\n",
            escaped(plot.picture.title),
            draw::svg(plot)?,
            table(plot)
        );
    }

    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>ferroce: measured</title>\n<style>\n\
         body {{ font: 16px/1.5 sans-serif; max-width: 940px; margin: 2em auto; padding: 0 1em }}\n\
         svg {{ max-width: 100%; height: auto }}\n\
         table {{ border-collapse: collapse; font-size: 14px }}\n\
         td, th {{ padding: .2em .6em; border-bottom: 1px solid #ddd; text-align: right }}\n\
         td:first-child, th:first-child {{ text-align: left }}\n</style>\n</head>\n<body>\n\
         <h1>ferroce, measured</h1>\n<p>{}.</p>\n\
         <p>Points are medians, bars the range. {}</p>\n{body}</body>\n</html>\n",
        escaped(&conditions.to_string()),
        escaped(around),
    ))
}

/// A plot's medians.
fn table(plot: &Plot) -> String {
    let picture = plot.picture;
    let heads: String = picture.xs.iter().map(|x| format!("<th>{x}</th>")).collect();
    let rows = plot.curves.iter().map(|curve| {
        let cells = curve.points.iter().map(|point| match point.values.len() {
            0 => "<td></td>".to_owned(),
            _ => format!("<td>{}</td>", amount(point.median())),
        });
        format!(
            "<tr><td>{}</td>{}</tr>\n",
            escaped(curve.name),
            cells.collect::<String>()
        )
    });
    format!(
        "<table>\n<tr><th>{}, over {}</th>{heads}</tr>\n{}</table>",
        picture.unit,
        escaped(picture.x),
        rows.collect::<String>()
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// All values that were measured.
fn json(plots: &[Plot], conditions: &Conditions) -> Result<String> {
    let plots: Vec<Value> = plots.iter().map(Plot::json).collect();
    let all = json!({ "conditions": conditions.json(), "plots": plots });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

impl Plot {
    fn json(&self) -> Value {
        let picture = self.picture;
        let curves = self.curves.iter().map(|curve| {
            let points = picture.xs.iter().zip(&curve.points);
            let points = points.map(|(x, point)| json!({ "x": x, "values": point.values }));
            json!({ "name": curve.name, "points": points.collect::<Vec<_>>() })
        });
        json!({
            "file": picture.file, "title": picture.title, "x": picture.x, "y": picture.y,
            "unit": picture.unit, "curves": curves.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_use_is_said_and_judged() {
        let conditions = |others| Conditions::of(3, 2, others).to_string();
        assert!(conditions(0.01).ends_with("used 1 % of the processors"));
        assert!(conditions(0.4).ends_with("40 % of the processors: too much for a judgement"));
    }
}
