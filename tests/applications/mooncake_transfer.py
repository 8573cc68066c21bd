"""One end of Mooncake's transfer engine: `serve ADDRESS PORT` offers a buffer, `ask ADDRESS PORT`
reads it, writes half of it anew and has the other end look. Both compare every byte."""

import ctypes
import os
import socket
import struct
import sys


def is_ipv6(address):
    return ":" in address


# The engine looks for it when it is loaded.
if is_ipv6(sys.argv[2]):
    os.environ["MC_USE_IPV6"] = "1"

from mooncake.engine import TransferEngine  # noqa: E402

LENGTH = 8 << 20
HALF = LENGTH // 2
WHERE = struct.Struct("<QI")


def pattern(seed):
    """Half of a buffer; nothing in it repeats with the length of a packet."""
    return bytes((at * 7 + seed) % 251 for at in range(251)) * (HALF // 251) + bytes(HALF % 251)


def start(own_address):
    """An engine, and a buffer that it may transfer from and to."""
    engine = TransferEngine()
    check(engine.initialize(own_address, "P2PHANDSHAKE", "rdma", "ferroce0"), "initialize")
    buffer = (ctypes.c_char * LENGTH)()
    check(engine.register_memory(ctypes.addressof(buffer), LENGTH), "register_memory")
    return engine, buffer


def in_url(address):
    return f"[{address}]" if is_ipv6(address) else address


def check(result, what):
    if result != 0:
        sys.exit(f"{what}: {result}")


def compare(buffer, first, second, what):
    if buffer[:HALF] != pattern(first) or buffer[HALF:] != pattern(second):
        sys.exit(f"{what}: other bytes")


def serve(address, port):
    engine, buffer = start(address)
    buffer[:] = pattern(1) + pattern(2)
    family = socket.AF_INET6 if is_ipv6(address) else socket.AF_INET
    listener = socket.create_server((address, port), family=family)
    peer, _ = listener.accept()
    peer.sendall(WHERE.pack(ctypes.addressof(buffer), engine.get_rpc_port()))
    if peer.recv(1) != b"w":
        sys.exit("no word of a write")
    compare(buffer, 3, 2, "written")
    peer.sendall(b"k")


def ask(address, port):
    peer = socket.create_connection((address, port))
    there, rpc_port = WHERE.unpack(peer.recv(WHERE.size, socket.MSG_WAITALL))
    engine, buffer = start(peer.getsockname()[0])
    here, segment = ctypes.addressof(buffer), f"{in_url(address)}:{rpc_port}"
    check(engine.transfer_sync_read(segment, here, there, LENGTH), "transfer_sync_read")
    compare(buffer, 1, 2, "read")
    buffer[:HALF] = pattern(3)
    check(engine.transfer_sync_write(segment, here, there, HALF), "transfer_sync_write")
    peer.sendall(b"w")
    if peer.recv(1) != b"k":
        sys.exit("the other end does not have what was written")
    print("read and written")


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
