"""A user of a device that is the machine's takes all slots and lets them go, but keeps their sockets,
and looks whether packets of the next owner, another user, come to them."""

import array
import ctypes
import json
import os
import socket
import time

CONTROL = "/run/ferroce/ferroced.sock"
DEVICE = ("127.0.0.1", 4791)
# Made by root, once another user has a slot, and once its transfer is over.
SLOT = "/run/slot"
OVER = "/run/over"
SO_INCOMING_CPU = 49
SO_DETACH_REUSEPORT_BPF = 68
LIMIT = 30


class Owner:
    """A connection to the daemon."""

    def __init__(self):
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(LIMIT)
        self.control.connect(CONTROL)

    def ask(self, version, request):
        message = {"v": version, "id": 1, "request": request}
        self.control.send(json.dumps(message).encode())
        answer = {"event": None}
        while "event" in answer:
            data, beside, _, _ = self.control.recvmsg(1 << 17, socket.CMSG_SPACE(16 * 4))
            answer = json.loads(data)
        fds = array.array("i")
        for _, _, content in beside:
            fds.frombytes(content)
        return answer, list(fds)


def spoken():
    for version in range(1, 100):
        answer, _ = Owner().ask(version, "status")
        if answer["v"] == version:
            return version
    raise SystemExit("no version of the protocol is spoken")


def take_all():
    """The sockets of all slots, which are the caller's no longer."""
    version, owners, sockets = spoken(), [], {}
    deadline = time.monotonic() + LIMIT
    while len(sockets) < 255 and time.monotonic() < deadline:
        owner = Owner()
        answer, fds = owner.ask(version, {"attach": {"name": "keeper", "pid": os.getpid()}})
        for fd in fds:
            os.close(fd)
        reply = answer["reply"]["reply"]
        if "attached" not in reply:
            time.sleep(0.1)
            continue
        owners.append(owner)
        answer, fds = owner.ask(version, {"receive_socket": {"gid_index": 0}})
        kept = socket.socket(fileno=fds[0])
        kept.setblocking(False)
        sockets[reply["attached"]["slot"]] = kept
    for owner in owners:
        owner.control.close()
    return sockets


def packets(of):
    """How many of a slot's packets have come, to whichever socket."""
    count = 0
    for kept in sockets.values():
        while True:
            try:
                data = kept.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                continue
            count += data[5:6] == bytes([of])
    return count


def probed(of):
    """The same, of packets that are sent here."""
    for _ in range(200):
        # The kernel's choice without a program goes by the sender's port.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(bytes(5) + bytes([of]) + bytes(10), DEVICE)
    time.sleep(0.1)
    return packets(of)


def detached(of):
    """The same, where the group has no program."""
    any_of_them = next(iter(sockets.values()))
    any_of_them.setsockopt(socket.SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0)
    return probed(of)


def drawn(of):
    """The same, where the kernel is told what it heeds before it asks the group's program. Where a
    socket that is connected leaves the group, this moves the numbers of others."""
    count = 0
    for kept in sockets.values():
        kept.connect(("127.0.0.1", 9))
        # To no family: it is not connected any longer.
        ctypes.CDLL(None).connect(kept.fileno(), bytes(16), 16)
    for cpu in sorted(os.sched_getaffinity(0)):
        for kept in sockets.values():
            kept.setsockopt(socket.SOL_SOCKET, SO_INCOMING_CPU, cpu)
        count += probed(of)
    return count


def until(path):
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if os.path.exists(path):
            return
        yield


sockets = take_all()
print("kept:", len(sockets), flush=True)
for _ in until(SLOT):
    time.sleep(0.01)
with open(SLOT) as file:
    slot = int(file.read())
packets(slot)
print("looking at another's slot", flush=True)
transfer = sum(packets(slot) for _ in until(OVER))
print("of a transfer:", transfer)
print("sent to the slot:", probed(slot))
print("without steering:", detached(slot))
print("drawn:", drawn(slot))
