//! A specification of the Container Device Interface, as far as ours go: variables and mounts,
//! device by device.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cdi::arguments::Form;
use crate::error::Error;
use crate::libraries::{DRIVER, SHIM};

/// Vendor and class of our devices.
pub(crate) const KIND: &str = "ferroce.dev/rdma";
/// The oldest version that has all that is used here; podman 4 reads no newer one than 0.5.0.
const VERSION: &str = "0.3.0";

/// Where the libraries are in a container.
const LIBRARIES: &str = "/usr/lib/ferroce";
/// Where the runtime directory is in a container.
const RUNTIME: &str = "/run/ferroce";
/// In a path, glibc's dynamic linker puts the name of its directory of libraries here, such as
/// `lib/x86_64-linux-gnu` or `lib64`. musl's takes it as it is written. The installation has links
/// of all these names, so each finds the libraries for itself, and neither finds the other's: a
/// program that got those would not start.
const LIB: &str = "$LIB";
/// Nothing in a container changes what all containers and the host share. Sockets can be connected
/// to all the same.
const OPTIONS: [&str; 4] = ["ro", "nosuid", "nodev", "bind"];

/// The whole.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Specification {
    cdi_version: String,
    kind: String,
    pub(crate) devices: Vec<Device>,
}

/// What can be asked for, and what is done then.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Device {
    pub(crate) name: String,
    #[serde(rename = "containerEdits")]
    pub(crate) edits: Edits,
}

/// What is done to a container.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edits {
    /// `NAME=VALUE` each.
    env: Vec<String>,
    pub(crate) mounts: Vec<Mount>,
}

/// A directory of the host's in a container.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mount {
    pub(crate) host_path: PathBuf,
    container_path: PathBuf,
    options: Vec<String>,
}

impl Specification {
    pub(crate) fn new(devices: Vec<Device>) -> Self {
        Self {
            cdi_version: VERSION.to_owned(),
            kind: KIND.to_owned(),
            devices,
        }
    }

    /// Reads either form: what is JSON is YAML, too.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_norway::Error> {
        serde_norway::from_str(text)
    }

    /// The text of a file.
    pub(crate) fn written(&self, form: Form) -> Result<String, Error> {
        let failed = |error: std::io::Error| Error::io("writing the specification")(error);
        match form {
            Form::Json => serde_json::to_string_pretty(self)
                .map(|text| text + "\n")
                .map_err(|error| failed(error.into())),
            Form::Yaml => {
                serde_norway::to_string(self).map_err(|error| failed(std::io::Error::other(error)))
            }
        }
    }
}

impl Device {
    pub(crate) fn new(name: String, edits: Edits) -> Self {
        Self { name, edits }
    }
}

impl Edits {
    /// For libraries that are installed in a directory, and a device of a runtime directory.
    pub(crate) fn new(libraries: &Path, runtime: &Path) -> Self {
        Self {
            env: vec![
                format!("LD_PRELOAD={LIBRARIES}/{LIB}/{SHIM}"),
                format!("RDMAV_DRIVERS={LIBRARIES}/{LIB}/{DRIVER}"),
                format!("FERROCE_RUNTIME_DIR={RUNTIME}"),
            ],
            mounts: vec![
                Mount::new(libraries, LIBRARIES),
                Mount::new(runtime, RUNTIME),
            ],
        }
    }
}

impl Mount {
    fn new(host: &Path, container: &str) -> Self {
        Self {
            host_path: host.to_path_buf(),
            container_path: container.into(),
            options: OPTIONS.map(str::to_owned).to_vec(),
        }
    }
}

/// Whose devices a specification is of; `None` if it does not say.
pub(crate) fn kind(text: &str) -> Result<Option<String>, serde_norway::Error> {
    #[derive(Deserialize)]
    struct Kind {
        kind: Option<String>,
    }
    serde_norway::from_str(text).map(|Kind { kind }| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole text: runtimes of years past and to come read it.
    #[test]
    fn a_specification_is_what_runtimes_read() {
        let edits = Edits::new(Path::new("/usr/local/lib/ferroce"), Path::new("/run/x"));
        let specification = Specification::new(vec![Device::new("all".into(), edits)]);
        let expected = serde_json::json!({
            "cdiVersion": "0.3.0",
            "kind": "ferroce.dev/rdma",
            "devices": [{
                "name": "all",
                "containerEdits": {
                    "env": [
                        "LD_PRELOAD=/usr/lib/ferroce/$LIB/libferroce-shim.so",
                        "RDMAV_DRIVERS=/usr/lib/ferroce/$LIB/libferroce",
                        "FERROCE_RUNTIME_DIR=/run/ferroce",
                    ],
                    "mounts": [
                        {
                            "hostPath": "/usr/local/lib/ferroce",
                            "containerPath": "/usr/lib/ferroce",
                            "options": ["ro", "nosuid", "nodev", "bind"],
                        },
                        {
                            "hostPath": "/run/x",
                            "containerPath": "/run/ferroce",
                            "options": ["ro", "nosuid", "nodev", "bind"],
                        },
                    ],
                },
            }],
        });

        let json = specification.written(Form::Json).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read, expected);

        let yaml = specification.written(Form::Yaml).unwrap();
        let read: serde_json::Value = serde_norway::from_str(&yaml).unwrap();
        assert_eq!(read, expected);
    }
}
