//! `ferroce env`: what `ferroce run` puts into a program's environment, printed for a shell or for
//! what reads files of variables. It prints and asks the daemon to stay; it executes nothing.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use ferroce_control::RuntimeDir;

use crate::daemon;
use crate::error::Error;
use crate::libraries::{self, DRIVER, Libraries, PRELOADED, appended};
use crate::run::warn_if_unserved;
use crate::show::print;
use arguments::{Env, Form};

pub(crate) mod arguments;
mod forms;

/// At what LD_PRELOAD is split.
pub(crate) const PRELOAD_SEPARATORS: [char; 2] = [':', ' '];
/// At what RDMAV_DRIVERS is split.
pub(crate) const DRIVER_SEPARATORS: [char; 2] = [':', ';'];
/// How long a daemon that is started now stays until it has been asked to stay for good.
const MEANWHILE: u64 = 60;

/// A variable and what it becomes; `None`: it is no longer set.
type Variable = (&'static str, Option<OsString>);

/// Starts the daemon if there is none, has it stay, and prints the variables; or what undoes them.
pub(crate) fn env(dir: &RuntimeDir, env: &Env) -> Result<ExitCode, Error> {
    let variables = match env.unset {
        true => unset(),
        false => set(dir)?,
    };
    let text = match env.form() {
        Form::Shell => forms::shell(&variables),
        Form::Fish => forms::fish(&variables),
        Form::Csh => forms::csh(&variables)?,
        Form::Json => forms::json(&variables)?,
        Form::Github => forms::github(&variables)?,
        Form::Dotenv => forms::dotenv(&variables)?,
    };
    print(&text)
}

fn set(dir: &RuntimeDir) -> Result<[Variable; 3], Error> {
    libraries::check(dir)?;
    let mut client = daemon::ensure(dir, MEANWHILE)?;
    let libraries = libraries::find(dir)?;

    // What this shell will start, and when, nobody can tell: unlike `ferroce run` there is no
    // process that could hold the daemon meanwhile.
    client.stay()?;
    warn_if_unserved();
    Ok(variables(
        dir,
        &libraries,
        env::var_os("LD_PRELOAD"),
        env::var_os("RDMAV_DRIVERS"),
    ))
}

/// The variables, of those that the environment has. Another device's are replaced: a shell has one
/// runtime directory.
fn variables(
    dir: &RuntimeDir,
    libraries: &Libraries,
    preload: Option<OsString>,
    drivers: Option<OsString>,
) -> [Variable; 3] {
    let preload = preload_with(libraries, preload);
    let drivers = drivers_with(libraries, drivers);
    [
        ("LD_PRELOAD", Some(preload)),
        ("RDMAV_DRIVERS", Some(drivers)),
        ("FERROCE_RUNTIME_DIR", Some(dir.path().into())),
    ]
}

/// `LD_PRELOAD` with the shim, and without those of other builds.
pub(crate) fn preload_with(libraries: &Libraries, preload: Option<OsString>) -> OsString {
    let others = preload.and_then(|old| {
        without(&old, &PRELOAD_SEPARATORS, |item| {
            is_shim(item) && item != libraries.shim
        })
    });
    appended(others, &libraries.shim, &PRELOAD_SEPARATORS)
}

/// `RDMAV_DRIVERS` with the driver, and without those of other devices, which may have gone.
pub(crate) fn drivers_with(libraries: &Libraries, drivers: Option<OsString>) -> OsString {
    let others = drivers.and_then(|old| {
        without(&old, &DRIVER_SEPARATORS, |item| {
            is_driver(item) && item != libraries.driver
        })
    });
    appended(others, &libraries.driver, &DRIVER_SEPARATORS)
}

/// The variables without what [`set`] has put there; needs neither daemon nor libraries, which may
/// have gone.
fn unset() -> [Variable; 3] {
    let preload = env::var_os("LD_PRELOAD");
    let drivers = env::var_os("RDMAV_DRIVERS");
    [
        (
            "LD_PRELOAD",
            preload.and_then(|old| without(&old, &PRELOAD_SEPARATORS, is_shim)),
        ),
        (
            "RDMAV_DRIVERS",
            drivers.and_then(|old| without(&old, &DRIVER_SEPARATORS, is_driver)),
        ),
        ("FERROCE_RUNTIME_DIR", None),
    ]
}

fn is_shim(item: &Path) -> bool {
    PRELOADED.iter().any(|name| item.ends_with(name))
}

fn is_driver(item: &Path) -> bool {
    item.is_absolute() && item.ends_with(DRIVER)
}

/// A list without some of its items; the others, and what separates them, stay as they are. `None`
/// if nothing is left.
fn without(
    list: &OsStr,
    separators: &[char],
    unwanted: impl Fn(&Path) -> bool,
) -> Option<OsString> {
    let separates = |byte: &u8| separators.contains(&char::from(*byte));
    let mut kept = Vec::new();
    let mut rest = list.as_bytes();
    while !rest.is_empty() {
        let end = rest.iter().position(separates).unwrap_or(rest.len());
        let (item, after) = rest.split_at(end);
        let separator = after.get(..1).unwrap_or_default();
        rest = after.get(1..).unwrap_or_default();
        if !unwanted(Path::new(OsStr::from_bytes(item))) {
            kept.extend_from_slice(item);
            kept.extend_from_slice(separator);
        } else if rest.is_empty() {
            // What separated it from the one before separates nothing any more.
            kept.pop();
        }
    }

    (!kept.is_empty()).then(|| OsString::from_vec(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libraries(place: &str) -> Libraries {
        Libraries {
            shim: Path::new(place).join("libferroce_shim.so"),
            driver: Path::new(place).join("lib/libferroce"),
        }
    }

    fn text(variable: &Variable) -> Option<&str> {
        variable.1.as_ref().map(|value| value.to_str().unwrap())
    }

    #[test]
    fn what_is_set_already_is_kept_and_nothing_is_there_twice() {
        let dir = RuntimeDir::resolve(Some(Path::new("/run/x")));
        let (mut preload, mut drivers) = (Some("a.so b.so".into()), Some("mine;other".into()));
        for _ in 0..2 {
            let now = variables(&dir, &libraries("/x"), preload, drivers);
            assert_eq!(text(&now[0]), Some("a.so b.so:/x/libferroce_shim.so"));
            assert_eq!(text(&now[1]), Some("mine;other:/x/lib/libferroce"));
            assert_eq!(text(&now[2]), Some("/run/x"));
            let [first, second, _] = now;
            (preload, drivers) = (first.1, second.1);
        }

        // Of another device.
        let now = variables(&dir, &libraries("/y"), preload, drivers);
        assert_eq!(text(&now[0]), Some("a.so b.so:/y/libferroce_shim.so"));
        assert_eq!(text(&now[1]), Some("mine;other:/y/lib/libferroce"));
    }

    #[test]
    fn items_are_taken_out_with_what_separates_them() {
        let out = |list: &str| {
            let left = without(OsStr::new(list), &PRELOAD_SEPARATORS, is_shim);
            left.map(|left| left.into_string().unwrap())
        };
        assert_eq!(out("/x/libferroce-shim.so"), None);
        assert_eq!(out(""), None);
        assert_eq!(out("a.so b.so:/x/libferroce-shim.so").unwrap(), "a.so b.so");
        assert_eq!(out("/x/libferroce_shim.so:a.so b.so").unwrap(), "a.so b.so");
        assert_eq!(out("a.so:/x/libferroce_shim.so b.so").unwrap(), "a.so:b.so");
        assert_eq!(
            out("libnotferroce-shim.so").unwrap(),
            "libnotferroce-shim.so"
        );
    }

    #[test]
    fn a_driver_of_that_name_elsewhere_is_not_ours() {
        assert!(is_driver(Path::new("/x/libferroce")));
        assert!(!is_driver(Path::new("libferroce")));
        assert!(!is_driver(Path::new("/x/libferroce2")));
    }
}
