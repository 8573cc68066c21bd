"""What a user of a device that is the machine's gets from its daemon beyond what programs ask for.
One of another user's has a slot meanwhile."""

import array
import ctypes
import errno
import json
import os
import socket
import struct

DIR = "/run/ferroce/"
SO_ATTACH_REUSEPORT_CBPF = 51


def connect(name):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(20)
    s.connect(DIR + name)
    return s


def attempt(what):
    try:
        what()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]


control = connect("ferroced.sock")
version = None


def ask(request):
    """The answer to a request, and descriptors that came with it."""
    global version
    for v in [version] if version else range(1, 100):
        peer = control if version else connect("ferroced.sock")
        peer.send(json.dumps({"v": v, "id": 1, "request": request}).encode())
        answer = {"event": None}
        while "event" in answer:
            data, beside, _, _ = peer.recvmsg(1 << 17, socket.CMSG_SPACE(16 * 4))
            answer = json.loads(data)
        if answer["v"] == v:
            version = v
            fds = array.array("i")
            for _, _, content in beside:
                fds.frombytes(content)
            return answer["reply"]["reply"], list(fds)
    raise SystemExit("no version of the protocol is spoken")


ask("status")
mine, _ = ask({"attach": {"name": "asker", "pid": os.getpid()}})
slot = mine["attached"]["slot"]
given, refusals = 0, set()
for other in range(1, 256):
    if other != slot:
        answer, fds = ask({"inbox": {"slot": other}})
        given += answer == "inbox"
        refusals.add(errno.errorcode[answer["error"]["errno"]])
print("inboxes of others:", given)
tables = [ask({"objects": {"slot": other}})[0] == "objects" for other in range(1, 256)]
own = tables.pop(slot - 1)
print(f"tables of others: {sum(tables)}, of its own: {own:d}")
print("another user's inbox:", "EACCES" if "EACCES" in refusals else refusals)
print("umad:", attempt(lambda: connect("umad.sock")))

_, fds = ask({"receive_socket": {"gid_index": 0}})
slot_socket = socket.socket(fileno=fds[0])
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, slot))
filters = struct.pack("HxxxxxxP", 1, ctypes.addressof(program))
steer = lambda: slot_socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, filters)
print("another steering:", attempt(steer))

detach = lambda: slot_socket.setsockopt(socket.SOL_SOCKET, 68, 0)
print("no steering:", attempt(detach))
