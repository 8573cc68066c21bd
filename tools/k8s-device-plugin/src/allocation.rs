//! What a container needs to see the device. `ferroce cdi generate` says it, so pods get what
//! `--device` of podman gives.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use tokio::process::Command;

use crate::api;

/// The device of the specification that every installation has.
const DEVICE: &str = "all";

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AllocationError {
    /// `ferroce` cannot be executed.
    #[error("{program}: {source}")]
    Command {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It has failed.
    #[error("`ferroce cdi generate` failed: {0}")]
    Failed(String),
    /// It says something else.
    #[error("`ferroce cdi generate` printed no specification: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It says nothing of that device.
    #[error("`ferroce cdi generate` knows no device `{DEVICE}`")]
    NoDevice,
}

/// As the specification has it.
#[derive(Debug, Deserialize)]
struct Specification {
    kind: String,
    devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: Edits,
}

#[derive(Debug, Deserialize)]
struct Edits {
    env: Vec<String>,
    mounts: Vec<Mount>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: String,
    container_path: String,
    options: Vec<String>,
}

/// Asks `ferroce`; the answer for one container. With `by_name` it names the device, for the
/// container runtime to look up in the node's own specification.
pub(crate) async fn ask(
    ferroce: &Path,
    runtime: &Path,
    by_name: bool,
) -> Result<api::ContainerAllocateResponse, AllocationError> {
    let output = Command::new(ferroce)
        .arg("--runtime-dir")
        .arg(runtime)
        .args(["cdi", "generate", "--format", "json"])
        .output()
        .await
        .map_err(|source| AllocationError::Command {
            program: ferroce.display().to_string(),
            source,
        })?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(AllocationError::Failed(why));
    }
    answer(&output.stdout, by_name)
}

fn answer(
    specification: &[u8],
    by_name: bool,
) -> Result<api::ContainerAllocateResponse, AllocationError> {
    let Specification { kind, devices } = serde_json::from_slice(specification)?;
    let device = devices.into_iter().find(|device| device.name == DEVICE);
    let edits = device.ok_or(AllocationError::NoDevice)?.container_edits;
    if by_name {
        return Ok(api::ContainerAllocateResponse {
            cdi_devices: vec![api::CdiDevice {
                name: format!("{kind}={DEVICE}"),
            }],
            ..Default::default()
        });
    }

    let variables = edits.env.iter().filter_map(|line| line.split_once('='));
    let envs: HashMap<_, _> = variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mounts = edits.mounts.into_iter().map(|mount| api::Mount {
        read_only: mount.options.iter().any(|option| option == "ro"),
        container_path: mount.container_path,
        host_path: mount.host_path,
    });
    Ok(api::ContainerAllocateResponse {
        envs,
        mounts: mounts.collect(),
        cdi_devices: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIFICATION: &str = r#"{
        "cdiVersion": "0.3.0",
        "kind": "ferroce.dev/rdma",
        "devices": [
            {"name": "ferroce0", "containerEdits": {"env": [], "mounts": []}},
            {"name": "all", "containerEdits": {
                "env": ["A=b=c"],
                "mounts": [
                    {"hostPath": "/h", "containerPath": "/c", "options": ["bind", "ro"]},
                    {"hostPath": "/i", "containerPath": "/d", "options": ["bind"]}
                ]
            }}
        ]
    }"#;

    #[test]
    fn a_container_gets_what_the_specification_says() {
        let answer = answer(SPECIFICATION.as_bytes(), false).unwrap();
        assert_eq!(answer.envs["A"], "b=c");
        let mounts: Vec<_> = answer
            .mounts
            .iter()
            .map(|mount| (&*mount.host_path, &*mount.container_path, mount.read_only))
            .collect();
        assert_eq!(mounts, [("/h", "/c", true), ("/i", "/d", false)]);
        assert!(answer.cdi_devices.is_empty());
    }

    #[test]
    fn or_the_name_to_look_up() {
        let answer = answer(SPECIFICATION.as_bytes(), true).unwrap();
        assert_eq!(answer.cdi_devices[0].name, "ferroce.dev/rdma=all");
        assert!(answer.envs.is_empty() && answer.mounts.is_empty());
    }

    #[test]
    fn what_is_no_specification_of_the_device_is_told() {
        let empty = br#"{"kind": "x", "devices": []}"#;
        assert!(matches!(
            answer(empty, false),
            Err(AllocationError::NoDevice)
        ));
        assert!(matches!(
            answer(b"?", false),
            Err(AllocationError::Unreadable(_))
        ));
    }
}
