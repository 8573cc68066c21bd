//! The job of docs/ci.md for GitHub, with the action that is `action.yml`: by a stand-in for the
//! runner, which gives each step a shell of its own, whose environment is what the files of
//! `$GITHUB_ENV` and `$GITHUB_PATH` hold by then.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::room::Room;
use super::{DOCUMENTS, install, read};
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;

/// The document's file with the job.
const WORKFLOW: &str = ".github/workflows/rdma.yml";
/// Runs steps: each is a script with lines `NAME=VALUE` of its own beside it.
const RUNNER: &str = r#"
    : >"$GITHUB_ENV"; : >"$GITHUB_PATH"
    for step in steps/*.sh; do
        {
            cat runner.env "$GITHUB_ENV" "${step%.sh}.env"
            echo "PATH=$(tac "$GITHUB_PATH" | tr '\n' ':')$PATH"
            printf '%s\n' bash -e "$step"
        } >arguments
        echo "step: $step"
        xargs -d '\n' -a arguments env -i
    done"#;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("documents/GitHub's job", |lab| {
            let job = run(lab, "path")?;
            let seen = job.out.matches("#bytes").count();
            let finds = job.out.contains("PORT_ACTIVE") && job.out.contains("65536");
            match job.success() && finds && seen == 2 {
                true => Ok(()),
                false => Err(Stop::with("ib_write_bw has not run twice", &[&job])),
            }
        }),
        Case::new(
            "documents/GitHub's job with an input that makes no sense",
            refused,
        ),
    ]
}

/// The first step of the action says what is wrong, and no other one is run.
fn refused(lab: &mut Lab) -> Ending {
    let job = run(lab, "snap")?;
    let says = job.err.contains("`snap`: it must be wheel, deb or path");
    match !job.success() && says && !job.out.contains("steps/01") {
        true => Ok(()),
        false => Err(Stop::with("the action does not say what is wrong", &[&job])),
    }
}

/// Runs the document's job with ferroce from an installed prefix, which the action is told to be
/// `source`.
fn run(lab: &mut Lab, source: &str) -> Result<Finished, Stop> {
    lab.vacate();
    let base = Room::new(None, &[])?;
    let prefix = install(lab, &base)?;
    let room = Room::new(None, &[])?;
    let steps = steps(&prefix, source)?;
    lay_out(&room, &steps)?;

    let mut command = room.enter(&room.work());
    command
        .env("GITHUB_ENV", room.work().join("github_env"))
        .env("GITHUB_PATH", room.work().join("github_path"))
        .args(["sh", "-ec", RUNNER]);
    Ok(process::run(
        command,
        &lab.case_dir()?,
        "job",
        super::room::LIMIT,
    )?)
}

/// A step as the runner has it when it comes to it.
struct Step {
    script: String,
    variables: Vec<String>,
}

fn lay_out(room: &Room, steps: &[Step]) -> Result<()> {
    let work = room.work();
    let dir = work.join("steps");
    fs::create_dir(&dir)?;
    for (number, step) in steps.iter().enumerate() {
        fs::write(dir.join(format!("{number:02}.sh")), &step.script)?;
        fs::write(dir.join(format!("{number:02}.env")), lines(&step.variables))?;
    }

    let file = |name: &str| format!("{}={}", name.to_uppercase(), work.join(name).display());
    let of_the_runner = [
        format!("HOME={}", room.home().display()),
        // Else root's device would be the machine's.
        format!("XDG_RUNTIME_DIR={}", room.run().display()),
        format!("RUNNER_TEMP={}", work.display()),
        format!("GITHUB_ACTION_PATH={}", build::workspace().display()),
        file("github_env"),
        file("github_path"),
    ];
    fs::write(work.join("runner.env"), lines(&of_the_runner))?;
    Ok(())
}

fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text}\n")).collect()
}

/// The job's steps, the action's in place of its use, with what a tester has in place of what the
/// document names.
fn steps(prefix: &Path, source: &str) -> Result<Vec<Step>> {
    let job = yaml(&document(WORKFLOW)?)?;
    let action = yaml(&fs::read_to_string(build::workspace().join("action.yml"))?)?;
    let mut steps = Vec::new();
    for step in array(&job["jobs"]["rdma"]["steps"])? {
        match step["uses"].as_str() {
            None => steps.push(plain(step, &Value::Null)?),
            Some(uses) if uses.starts_with("actions/checkout@") => {}
            Some(uses) if uses.starts_with("OWNER/ferroce@") => {
                let mut with = step["with"].clone();
                with["source"] = source.into();
                with["from"] = prefix.to_str().context("a prefix in UTF-8")?.into();
                // The tests' own packages are there.
                with["packages"] = "".into();
                let inputs = inputs(&action, &with)?;
                for step in array(&action["runs"]["steps"])? {
                    steps.push(plain(step, &inputs)?);
                }
            }
            Some(uses) => bail!("what is {uses}?"),
        }
    }
    Ok(steps)
}

/// The action's inputs: those that are given, and what others are by default.
fn inputs(action: &Value, with: &Value) -> Result<Value> {
    let declared = action["inputs"].as_object().context("no inputs")?;
    let given = with.as_object().context("nothing is given")?;
    if let Some(unknown) = given.keys().find(|name| !declared.contains_key(*name)) {
        bail!("the action has no input {unknown}");
    }

    let mut inputs = serde_json::Map::new();
    for (name, about) in declared {
        let value = given.get(name).or_else(|| about.get("default"));
        let value = value.with_context(|| format!("the input {name} is not given"))?;
        inputs.insert(name.clone(), value.clone());
    }
    Ok(inputs.into())
}

/// A step that is a script.
fn plain(step: &Value, inputs: &Value) -> Result<Step> {
    let script = step["run"].as_str().context("a step that runs nothing")?;
    let mut variables = Vec::new();
    for (name, value) in step["env"].as_object().into_iter().flatten() {
        let value = value.as_str().context("a variable that is no text")?;
        variables.push(format!("{name}={}", substituted(value, inputs)?));
    }
    Ok(Step {
        script: substituted(script, inputs)?,
        variables,
    })
}

/// `${{ inputs.NAME }}` becomes what was given; nothing else is used.
fn substituted(text: &str, inputs: &Value) -> Result<String> {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (expression, after) = after.split_once("}}").context("no end of ${{")?;
        let name = expression.trim().strip_prefix("inputs.");
        let value = name.and_then(|name| inputs[name].as_str());
        done += before;
        done += value.with_context(|| format!("what is {expression}?"))?;
        rest = after;
    }
    Ok(done + rest)
}

/// A file of the document.
pub(super) fn document(name: &str) -> Result<String, anyhow::Error> {
    let (file, rows) = DOCUMENTS[1];
    let files = match read(file, rows) {
        Ok((_, files)) => files,
        Err(stop) => return Err(stop.into_error()),
    };
    let found = files.into_iter().find(|(known, _)| known == name);
    let (_, text) = found.with_context(|| format!("{file} has no file {name}"))?;
    Ok(text)
}

pub(super) fn yaml(text: &str) -> Result<Value> {
    serde_norway::from_str(text).context("YAML")
}

pub(super) fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("no list where one should be")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_steps_are_the_documents_and_the_actions() {
        let steps = steps(Path::new("/opt/x"), "path").unwrap();
        assert!(
            steps[0].script.contains("install.sh"),
            "{}",
            steps[0].script
        );
        assert!(
            steps[0]
                .variables
                .contains(&"FERROCE_FROM=/opt/x".to_owned())
        );
        assert!(steps[1].variables.contains(&"FERROCE_OPTIONS=".to_owned()));
        assert!(
            steps
                .iter()
                .any(|step| step.script.contains("ferroce wait 18515\n"))
        );
    }

    #[test]
    fn expressions_that_are_not_known_are_told() {
        let inputs = serde_json::json!({ "a": "b" });
        assert_eq!(
            substituted("x ${{ inputs.a }} y", &inputs).unwrap(),
            "x b y"
        );
        assert!(substituted("${{ github.token }}", &inputs).is_err());
        assert!(substituted("${{ inputs.c }}", &inputs).is_err());
    }
}
