//! The messages of the kubelet's device plugin API, `v1beta1`, and its two services, of which the
//! kubelet serves one (`Registration`) and a plugin the other (`DevicePlugin`).

use std::collections::HashMap;

/// What a plugin says of itself, so that the kubelet can tell one that is too new.
pub(crate) const VERSION: &str = "v1beta1";
/// The health of a device that can be given to a container.
pub(crate) const HEALTHY: &str = "Healthy";
/// And of one that cannot.
pub(crate) const UNHEALTHY: &str = "Unhealthy";

/// Nothing.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Empty {}

/// Which of the calls that a plugin need not have are to be made.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct DevicePluginOptions {
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    #[prost(bool, tag = "2")]
    pub get_preferred_allocation_available: bool,
}

/// Of a plugin that is there.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RegisterRequest {
    #[prost(string, tag = "1")]
    pub version: String,
    /// The name of its socket, in the kubelet's directory.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    #[prost(string, tag = "3")]
    pub resource_name: String,
    #[prost(message, optional, tag = "4")]
    pub options: Option<DevicePluginOptions>,
}

/// All devices, whenever one of them has changed.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListAndWatchResponse {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

/// What a container can ask for one of. (3 is its place in the machine; ours have none.)
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Device {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub health: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PreferredAllocationRequest {
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerPreferredAllocationRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerPreferredAllocationRequest {
    #[prost(string, repeated, tag = "1")]
    pub available_device_ids: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub must_include_device_ids: Vec<String>,
    #[prost(int32, tag = "3")]
    pub allocation_size: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PreferredAllocationResponse {
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerPreferredAllocationResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerPreferredAllocationResponse {
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

/// Of the containers of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AllocateRequest {
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerAllocateRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerAllocateRequest {
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

/// One for each container that was asked for.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AllocateResponse {
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerAllocateResponse>,
}

/// What the kubelet has done to a container. (3 are nodes below /dev and 4 annotations; ours need
/// none.)
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerAllocateResponse {
    #[prost(map = "string, string", tag = "1")]
    pub envs: HashMap<String, String>,
    #[prost(message, repeated, tag = "2")]
    pub mounts: Vec<Mount>,
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Mount {
    #[prost(string, tag = "1")]
    pub container_path: String,
    #[prost(string, tag = "2")]
    pub host_path: String,
    #[prost(bool, tag = "3")]
    pub read_only: bool,
}

/// A device that the container runtime knows by its specification.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CdiDevice {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PreStartContainerRequest {
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct PreStartContainerResponse {}

/// Of `build.rs`.
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::all,
    clippy::too_many_lines,
    reason = "generated"
)]
mod services {
    include!(concat!(env!("OUT_DIR"), "/v1beta1.Registration.rs"));
    include!(concat!(env!("OUT_DIR"), "/v1beta1.DevicePlugin.rs"));
}

#[allow(unused_imports, reason = "the test is the other end of both")]
pub(crate) use services::{
    device_plugin_client, device_plugin_server, registration_client, registration_server,
};
