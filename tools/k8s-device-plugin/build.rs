//! Writes the two services of the kubelet's device plugin API, whose messages are in `src/api.rs`.

use tonic_build::manual::{Builder, Method, Service};

const CODEC: &str = "tonic_prost::ProstCodec";

fn main() {
    let registration = Service::builder()
        .name("Registration")
        .package("v1beta1")
        .method(method("register", "Register", "RegisterRequest", "Empty").build())
        .build();

    let plugin = [
        method(
            "get_device_plugin_options",
            "GetDevicePluginOptions",
            "Empty",
            "DevicePluginOptions",
        ),
        method(
            "list_and_watch",
            "ListAndWatch",
            "Empty",
            "ListAndWatchResponse",
        )
        .server_streaming(),
        method(
            "get_preferred_allocation",
            "GetPreferredAllocation",
            "PreferredAllocationRequest",
            "PreferredAllocationResponse",
        ),
        method(
            "allocate",
            "Allocate",
            "AllocateRequest",
            "AllocateResponse",
        ),
        method(
            "pre_start_container",
            "PreStartContainer",
            "PreStartContainerRequest",
            "PreStartContainerResponse",
        ),
    ];
    let plugin = plugin
        .into_iter()
        .fold(
            Service::builder().name("DevicePlugin").package("v1beta1"),
            |service, method| service.method(method.build()),
        )
        .build();

    Builder::new().compile(&[registration, plugin]);
    println!("cargo::rerun-if-changed=build.rs");
}

fn method(
    name: &str,
    route: &str,
    input: &str,
    output: &str,
) -> tonic_build::manual::MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("crate::api::{input}"))
        .output_type(format!("crate::api::{output}"))
        .codec_path(CODEC)
}
