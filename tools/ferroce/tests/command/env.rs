//! `ferroce env`: what shells make of it, and the daemon that stays.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::place::Place;
use crate::text;

/// What a shell has after a line of it.
const SHOW: &str =
    r#"printf '%s\n' "${LD_PRELOAD-none}" "${RDMAV_DRIVERS-none}" "${FERROCE_RUNTIME_DIR-none}""#;

impl Place {
    fn command_path(&self) -> PathBuf {
        self.temp.path().join("ferroce")
    }

    /// Has a shell run a line in which `ferroce` is the command's path.
    fn shell(&self, shell: &str, line: &str) -> Option<Output> {
        let mut command = Command::new(shell);
        command
            .args(["-c", line])
            .env("ferroce", self.command_path())
            .env("FERROCE_RUNTIME_DIR", self.dir())
            .env("XDG_CONFIG_HOME", self.temp.path().join("config"))
            .env_remove("LD_PRELOAD")
            .env_remove("RDMAV_DRIVERS")
            .stdin(Stdio::null());
        command.output().ok()
    }
}

#[test]
fn shells_that_evaluate_it_have_what_run_sets_and_nothing_twice() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let run = place.output(&["run", "--", "sh", "-c", SHOW]);
    assert!(run.status.success(), "{run:?}");
    let expected = text(&run.stdout);
    let line = format!(
        r#"for i in 1 2; do eval "$("$ferroce" env)" || exit; {SHOW}; done
           eval "$("$ferroce" env --unset)"; {SHOW}"#
    );

    // Of the third it is known that not everybody has it.
    for shell in ["sh", "bash", "zsh"] {
        let Some(output) = place.shell(shell, &line) else {
            assert_eq!(shell, "zsh", "there is no {shell}");
            continue;
        };
        assert!(output.status.success(), "{shell}: {output:?}");
        let none = "none\nnone\nnone\n";
        assert_eq!(
            text(&output.stdout),
            format!("{expected}{expected}{none}"),
            "{shell}"
        );
        assert_eq!(text(&output.stderr), "", "{shell}");
    }
}

/// Shells of other families. What they have must be what sh has.
#[test]
fn fish_and_csh_have_the_same() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let expected = text(&place.output(&["run", "--", "sh", "-c", SHOW]).stdout);
    let show = place.temp.path().join("show.sh");
    fs::write(&show, SHOW).unwrap();
    let show = format!("sh {}", show.display());
    let fish = format!(
        "for i in 1 2; $ferroce env --fish | source; {show}; end\n\
         $ferroce env --unset --fish | source; {show}\n"
    );
    let csh = format!(
        "foreach i (1 2)\neval \"`$ferroce env --csh`\"\n{show}\nend\n\
         eval \"`$ferroce env --unset --csh`\"\n{show}\n"
    );

    for (shell, script) in [("fish", &fish), ("tcsh", &csh), ("bsd-csh", &csh)] {
        // Not everybody has them: the group `documents` installs them.
        let there = Command::new(shell).args(["-c", "exit 0"]).output();
        if there.is_err() {
            eprintln!("skipped: there is no {shell}");
            continue;
        }
        let file = place.temp.path().join(shell);
        fs::write(&file, script).unwrap();
        let line = format!("exec {shell} {}", file.display());
        let output = place.shell("sh", &line).unwrap();
        assert!(output.status.success(), "{shell}: {output:?}");
        let all = format!("{expected}{expected}none\nnone\nnone\n");
        assert_eq!(text(&output.stdout), all, "{shell}");
    }
}

#[test]
fn what_the_environment_holds_is_kept() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let libgcc = place.temp.path().join("libferroce_provider.so");
    let line = format!(
        r#"export LD_PRELOAD='{0}' RDMAV_DRIVERS='mine;other'
           eval "$("$ferroce" env)"; {SHOW}; eval "$("$ferroce" env --unset)"; {SHOW}"#,
        libgcc.display()
    );
    let output = place.shell("sh", &line).unwrap();
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let shim = place.temp.path().join("libferroce_shim.so");
    assert_eq!(lines[0], format!("{}:{}", libgcc.display(), shim.display()));
    assert!(lines[1].starts_with("mine;other:/"), "{said}");
    let after = [libgcc.to_str().unwrap(), "mine;other", "none"];
    assert_eq!(lines[3..], after, "{said}");
}

#[test]
fn any_runtime_directory_comes_through_a_shell() {
    let Some(place) = Place::new() else { return };
    place.configure();

    // Installed, so that the libraries' names do not depend on the directory's.
    let lib = place.temp.path().join("lib/ferroce");
    let bin = place.temp.path().join("bin");
    for dir in [&lib, &bin] {
        fs::create_dir_all(dir).unwrap();
    }
    let library = place.temp.path().join("libferroce_shim.so");
    fs::copy(&library, lib.join("libferroce-shim.so")).unwrap();
    for number in ferroce_cabi::pabi::numbers() {
        let name = ferroce_cabi::pabi::driver_file("libferroce", number);
        fs::copy(&library, lib.join(name)).unwrap();
    }

    let moved = Command::new("mv")
        .args([place.command_path(), place.temp.path().join("ferroced")])
        .arg(&bin)
        .status();
    assert!(moved.unwrap().success());

    let odd = place.temp.path().join("it's \"$a\" `b` \\ and\nmore");
    let line = r#"trap '"$ferroce" --runtime-dir "$odd" down' EXIT
                  eval "$("$ferroce" --runtime-dir "$odd" env)"
                  printf %s "$FERROCE_RUNTIME_DIR""#;
    let output = Command::new("sh")
        .args(["-c", line])
        .env("ferroce", bin.join("ferroce"))
        .env("odd", &odd)
        .env("XDG_CONFIG_HOME", place.temp.path().join("config"))
        .env_remove("LD_PRELOAD")
        .env_remove("RDMAV_DRIVERS")
        .output()
        .unwrap();

    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), odd.to_str().unwrap());
}

#[test]
fn the_other_forms_hold_the_same() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let output = place.output(&["env", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = ["LD_PRELOAD", "RDMAV_DRIVERS", "FERROCE_RUNTIME_DIR"];
    assert_eq!(object.as_object().unwrap().len(), names.len());

    let github = text(&place.output(&["env", "--github"]).stdout);
    let dotenv = text(&place.output(&["env", "--dotenv"]).stdout);
    for (i, name) in names.iter().enumerate() {
        let value = object[name].as_str().unwrap();
        assert_eq!(github.lines().nth(i), Some(&*format!("{name}={value}")));
        assert_eq!(dotenv.lines().nth(i), Some(&*format!("{name}='{value}'")));
    }

    assert_eq!(github.lines().count(), names.len());

    let output = place.output(&["env", "--unset", "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(names.iter().all(|name| object[name].is_null()), "{object}");
    let refused = place.output(&["env", "--unset", "--github"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// Nobody holds it, and it was to leave after a second.
#[test]
fn its_daemon_stays_even_if_it_was_to_leave() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let up = place.output(&["up", "--idle-exit", "1"]);
    assert!(up.status.success(), "{up:?}");
    let output = place.output(&["env"]);
    assert!(output.status.success(), "{output:?}");

    // Nothing can be waited for here but that it does not happen.
    std::thread::sleep(Duration::from_millis(2_500));
    let status = place.output(&["status"]);
    assert!(status.status.success(), "{status:?}");
    assert!(place.output(&["down"]).status.success());
    assert!(!place.dir().exists());
}

#[test]
fn where_no_device_can_be_had_nothing_is_printed() {
    let Some(place) = Place::new() else { return };
    place.configure_at("203.0.113.9");
    let output = place.output(&["env"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.status.signal(), None);
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("203.0.113.9"), "{output:?}");
    let unset = place.output(&["env", "--unset"]);
    assert!(unset.status.success(), "{unset:?}");
}
