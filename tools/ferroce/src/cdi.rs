//! `ferroce cdi`: what a container runtime has to do for the programs of a container to see the
//! device, as a specification of the Container Device Interface. It starts no daemon and no
//! container.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ferroce_control::{Client, RuntimeDir};

use crate::cdi::arguments::{Cdi, Form, Generate, List};
use crate::cdi::specification::{Device, Edits, KIND, Specification};
use crate::error::Error;
use crate::libraries;
use crate::show::{print, table, trimmed};

pub(crate) mod arguments;
mod specification;

/// The device that is always there, whatever it is called.
const ALL: &str = "all";
/// How a specification's file is to end, or runtimes pass it over.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// `ferroce cdi …`.
pub(crate) fn cdi(dir: &RuntimeDir, cdi: &Cdi) -> Result<ExitCode, Error> {
    match cdi {
        Cdi::Generate(generate) => self::generate(dir, generate),
        Cdi::List(list) => self::list(list),
    }
}

/// Prints or writes the specification.
fn generate(dir: &RuntimeDir, generate: &Generate) -> Result<ExitCode, Error> {
    let file = (generate.output != Path::new("-")).then_some(&generate.output);
    let form = form(file, generate.format)?;
    let edits = Edits::new(&libraries::for_containers()?, dir.path());

    let names = [Some(ALL.to_owned()), name(dir)];
    let devices = names.into_iter().flatten();
    let text = Specification::new(
        devices
            .map(|name| Device::new(name, edits.clone()))
            .collect(),
    )
    .written(form)?;

    let Some(file) = file else {
        return print(text);
    };
    write(file, &text)?;
    println!("{} lets containers have {KIND}={ALL}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// The device's name; `None` without a daemon that could say it, or if nothing may be called so.
fn name(dir: &RuntimeDir) -> Option<String> {
    let status = Client::connect(dir).and_then(|mut client| client.status());
    match status {
        Ok(status) => Some(status.device.name).filter(|name| name != ALL),
        Err(error) => {
            eprintln!("ferroce: {KIND}={ALL} is all that there is: {error}");
            None
        }
    }
}

/// In what form to write, which must be what the file's name says.
fn form(file: Option<&PathBuf>, asked: Option<Form>) -> Result<Form, Error> {
    let Some(file) = file else {
        return Ok(asked.unwrap_or(Form::Json));
    };
    let extension = file.extension().and_then(|extension| extension.to_str());
    let named = match extension {
        Some("json") => Form::Json,
        Some("yaml" | "yml") => Form::Yaml,
        _ => return Err(Error::NoExtension(file.clone())),
    };
    match asked {
        Some(asked) if asked != named => Err(Error::OtherExtension {
            file: file.clone(),
            form: asked,
        }),
        _ => Ok(named),
    }
}

/// Writes beside the file and renames, so that no runtime reads the half of it.
fn write(file: &Path, text: &str) -> Result<(), Error> {
    let failed = || Error::io(file.display().to_string());
    let directory = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory).map_err(failed())?;

    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = directory.join(format!(".{name}.{}", std::process::id()));
    let written = fs::File::create(&beside)
        .and_then(|mut new| new.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&beside, file));
    written.map_err(failed()).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

/// Shows the devices that are in specifications, and whether what they name is still there.
fn list(list: &List) -> Result<ExitCode, Error> {
    let mut table = table(&["DEVICE", "FILE", ""]);
    let mut some = false;
    for file in list.directories().iter().flat_map(|dir| files(dir)) {
        let Some(found) = read(&file)? else { continue };
        for device in &found.devices {
            some = true;
            table.add_row([
                format!("{KIND}={}", device.name),
                file.display().to_string(),
                state(device),
            ]);
        }
    }

    match some {
        true => print(trimmed(&table)),
        false => Err(Error::NoSpecification(list.directories())),
    }
}

/// The files of a directory that runtimes read, by name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
        })
        .collect();
    files.sort();
    files
}

/// Reads a specification; `None` if it is of somebody else's devices.
fn read(file: &Path) -> Result<Option<Specification>, Error> {
    let text = fs::read_to_string(file).map_err(Error::io(file.display().to_string()))?;
    let unreadable = |source| Error::Specification {
        file: file.to_path_buf(),
        source,
    };

    // What others write into theirs is none of our business, as long as it says whose it is.
    let kind = specification::kind(&text).map_err(unreadable)?;
    match kind.as_deref() == Some(KIND) {
        true => Specification::parse(&text).map(Some).map_err(unreadable),
        false => Ok(None),
    }
}

/// What a runtime would stumble over.
fn state(device: &Device) -> String {
    let missing = device.edits.mounts.iter().map(|mount| &mount.host_path);
    match missing.clone().find(|path| !path.exists()) {
        Some(path) => format!("{} is missing", path.display()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_in_the_form_that_its_name_says() {
        let form = |file: &str, asked| super::form(Some(&PathBuf::from(file)), asked);
        assert_eq!(form("a.json", None).unwrap(), Form::Json);
        assert_eq!(form("a.yaml", None).unwrap(), Form::Yaml);
        assert_eq!(form("a.yml", Some(Form::Yaml)).unwrap(), Form::Yaml);
        assert_eq!(super::form(None, Some(Form::Yaml)).unwrap(), Form::Yaml);

        let error = form("a.json", Some(Form::Yaml)).unwrap_err().to_string();
        assert!(
            error.contains("a.json") && error.contains("yaml"),
            "{error}"
        );
        let error = form("ferroce", None).unwrap_err().to_string();
        assert!(
            error.contains("ferroce") && error.contains(".json"),
            "{error}"
        );
    }

    #[test]
    fn what_is_written_is_read_again_and_what_is_missing_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let edits = Edits::new(temp.path(), &temp.path().join("run"));
        let specification = Specification::new(vec![Device::new("all".into(), edits)]);
        for (name, form) in [("a.json", Form::Json), ("b.yaml", Form::Yaml)] {
            let file = temp.path().join("deep/er").join(name);
            write(&file, &specification.written(form).unwrap()).unwrap();
            assert_eq!(read(&file).unwrap().as_ref(), Some(&specification));
        }

        let directory = temp.path().join("deep/er");
        fs::write(directory.join("c.txt"), "no specification").unwrap();
        let names = |path: &PathBuf| path.file_name().unwrap().to_owned();
        let found: Vec<_> = files(&directory).iter().map(names).collect();
        assert_eq!(found, ["a.json", "b.yaml"]);

        let device = &specification.devices[0];
        assert!(state(device).ends_with("run is missing"));
        fs::create_dir(temp.path().join("run")).unwrap();
        assert_eq!(state(device), "");
    }

    #[test]
    fn others_specifications_are_passed_over_and_damaged_ones_named() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("other.json");
        fs::write(&file, r#"{"kind": "example.com/gpu", "devices": 7}"#).unwrap();
        assert_eq!(read(&file).unwrap(), None);

        for damaged in ["{", r#"{"kind": "ferroce.dev/rdma", "devices": 7}"#] {
            fs::write(&file, damaged).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains("other.json"), "{error}");
        }
    }
}
