//! The job of docs/ci.md for GitLab, with what it includes, `deploy/ci/gitlab.yml`: by a stand-in
//! for the runner, which runs `before_script` and `script` in one shell that ends at the first
//! failure.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::github::{array, document, yaml};
use super::install;
use super::room::Room;
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;

/// The document's file with the job.
const PIPELINE: &str = ".gitlab-ci.yml";
/// What the document's job includes.
pub(super) const TEMPLATE: &str = "deploy/ci/gitlab.yml";

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new("documents/GitLab's job", job)]
}

fn job(lab: &mut Lab) -> Ending {
    lab.vacate();
    let base = Room::new(None, &[])?;
    let prefix = install(lab, &base)?;
    let room = Room::new(None, &[])?;
    let script = script(&prefix)?;

    let mut command = room.enter(&room.work());
    command.env("CI_PROJECT_DIR", room.work());
    command.args(["bash", "-ec", &script]);
    let job = process::run(command, &lab.case_dir()?, "job", super::room::LIMIT)?;
    let seen = job.out.matches("#bytes").count();
    match job.success() && job.out.contains("PORT_ACTIVE") && seen == 2 {
        true => Ok(()),
        false => Err(Stop::with("ib_write_bw has not run twice", &[&job])),
    }
}

/// What the job's shell does, with ferroce from an installed prefix.
fn script(prefix: &Path) -> Result<String> {
    let pipeline = yaml(&document(PIPELINE)?)?;
    let included = pipeline["include"][0]["remote"].as_str();
    ensure!(
        included.is_some_and(|address| address.ends_with(TEMPLATE)),
        "the job does not include {TEMPLATE}"
    );
    let template = yaml(&fs::read_to_string(build::workspace().join(TEMPLATE))?)?;
    let (job, base) = (&pipeline["rdma"], &template[".ferroce"]);
    ensure!(
        job["extends"] == ".ferroce",
        "the job extends something else"
    );

    // What is set in the job takes the place of what is set in the template.
    let mut variables = serde_json::Map::new();
    for (name, value) in base["variables"].as_object().context("no variables")? {
        variables.insert(name.clone(), value["value"].clone());
    }
    for (name, value) in job["variables"].as_object().context("no variables")? {
        let known = variables.insert(name.clone(), value.clone());
        ensure!(known.is_some(), "{TEMPLATE} has no variable {name}");
    }
    let prefix = prefix.to_str().context("a prefix in UTF-8")?;
    for (name, value) in [
        ("FERROCE_SOURCE", "path"),
        ("FERROCE_FROM", prefix),
        // The tests' own packages are there.
        ("FERROCE_PACKAGES", ""),
    ] {
        variables.insert(name.to_owned(), value.into());
    }

    let mut script = String::new();
    for (name, value) in &variables {
        let value = value.as_str().context("a variable that is no text")?;
        script += &format!("export {name}={}\n", process::quoted(value));
    }
    for line in lines(base, "before_script")?.chain(lines(job, "script")?) {
        script += line.as_str().context("a line that is no text")?;
        script.push('\n');
    }
    Ok(script)
}

fn lines<'a>(job: &'a Value, name: &str) -> Result<impl Iterator<Item = &'a Value>> {
    Ok(array(&job[name])?.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_is_the_documents_in_the_templates_surroundings() {
        let script = script(Path::new("/opt/x")).unwrap();
        assert!(script.contains("export FERROCE_FROM=/opt/x\n"), "{script}");
        let (up, wait) = (script.find("ferroce up"), script.find("ferroce wait 18515"));
        assert!(up.is_some() && up < wait, "{script}");
    }
}
