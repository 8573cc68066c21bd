# SPDX-License-Identifier: MIT OR Apache-2.0
"""kubelet.py DIRECTORY: a kubelet as far as one device plugin sees it, by gRPC's own library.

Waits in the directory for a plugin, then for a healthy device of its, allocates that one to a
container, and prints what the container is to get, as JSON.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
from concurrent import futures

import grpc

LIMIT = 60


def messages():
    """The module that protoc makes of the messages."""
    sources = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(
            ["protoc", f"--proto_path={sources}", f"--python_out={made}", "deviceplugin.proto"],
            check=True,
        )
        sys.path.insert(0, made)
        import deviceplugin_pb2

        return deviceplugin_pb2


def main(directory):
    api = messages()
    plugins = queue.Queue()

    def register(request, context):
        plugins.put(request)
        return api.Empty()

    handler = grpc.unary_unary_rpc_method_handler(
        register,
        request_deserializer=api.RegisterRequest.FromString,
        response_serializer=api.Empty.SerializeToString,
    )
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler})]
    )
    server.add_insecure_port(f"unix://{directory}/kubelet.sock")
    server.start()
    plugin = plugins.get(timeout=LIMIT)

    channel = grpc.insecure_channel(f"unix://{directory}/{plugin.endpoint}")
    list_and_watch = channel.unary_stream(
        "/v1beta1.DevicePlugin/ListAndWatch",
        request_serializer=api.Empty.SerializeToString,
        response_deserializer=api.ListAndWatchResponse.FromString,
    )
    allocate = channel.unary_unary(
        "/v1beta1.DevicePlugin/Allocate",
        request_serializer=api.AllocateRequest.SerializeToString,
        response_deserializer=api.AllocateResponse.FromString,
    )
    for listed in list_and_watch(api.Empty(), timeout=LIMIT):
        healthy = [device.ID for device in listed.devices if device.health == "Healthy"]
        if healthy:
            break

    wanted = api.ContainerAllocateRequest(devices_ids=healthy[:1])
    request = api.AllocateRequest(container_requests=[wanted])
    [container] = allocate(request, timeout=LIMIT).container_responses
    answer = {
        "resource": plugin.resource_name,
        "devices": len(listed.devices),
        "env": [f"{name}={value}" for name, value in container.envs.items()],
        "mounts": [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["ro"] if mount.read_only else [],
            }
            for mount in container.mounts
        ],
    }
    print(json.dumps(answer))
    channel.close()
    server.stop(None)


main(sys.argv[1])
