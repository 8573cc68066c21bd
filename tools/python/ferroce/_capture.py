# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Captures (`ferroce capture`): what programs send and receive as long as a `with` lasts, in a file for Wireshark and as objects.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO, Any, Dict, List, Optional, Sequence, Union

from ._command import Error, told, words
from ._device import Device, current
from ._within import Within

# Runs the command until it is told by a line to end it, or this process has died. Its own standard error is the command's alone.
GUARD = '"$@" & exec 2>/dev/null; read -r _; kill -TERM $!; wait $!'
# How long the command may take to write what it has, in seconds.
PATIENCE = 30.0
# What the command says when it has begun, and at its end.
BEGUN = 'ferroce: capturing '
SUM = re.compile(r'(\d+) packets captured, (\d+) records dropped')


@dataclass(frozen=True)
class Packet:
    """
    A packet, as docs/capture.md has its JSON. What a packet has not, as most have no syndrome, is None.
    """

    time_ns: int
    program: str
    pid: int
    direction: str
    medium: str
    source: Union[str, int]
    destination: Union[str, int]
    bytes: int
    dropped: bool
    qp: Optional[int] = None
    port: Optional[int] = None
    opcode: Optional[str] = None
    opcode_number: Optional[int] = None
    dest_qp: Optional[int] = None
    source_qp: Optional[int] = None
    psn: Optional[int] = None
    ack_requested: Optional[bool] = None
    payload: Optional[int] = None
    va: Optional[int] = None
    rkey: Optional[int] = None
    length: Optional[int] = None
    syndrome: Optional[str] = None
    msn: Optional[int] = None
    message: Optional[str] = None


@dataclass(frozen=True)
class Event:
    """What a program has done by its verbs: `post_send`, `post_recv`, `completion` or `state`."""

    time_ns: int
    program: str
    pid: int
    verb: str
    qp: Optional[int] = None
    opcode: Optional[str] = None
    wr_id: Optional[int] = None
    bytes: Optional[int] = None
    status: Optional[str] = None
    state: Optional[str] = None


class Capture(Within):
    """A capture; `ferroce.capture` makes it. It is under way within a `with`, or between `start` and `stop`."""

    def __init__(self, path: Optional[str], options: Sequence[str], device: Optional[Device]) -> None:
        self.path = path
        self._options = list(options)
        self._device = device
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._lines: Optional[IO[str]] = None
        self._sum = (0, 0)

    def start(self) -> Capture:
        """Begins; returns when programs that are started from now on are seen from their first packet on."""
        if self._lines is not None:
            raise RuntimeError('the capture has been started already')
        where = (self._device or current()).runtime_dir
        file = [] if self.path is None else ['-w', self.path]
        self._lines = tempfile.TemporaryFile('w+', encoding='utf-8')
        # In a session of its own: it is not ended by who presses Ctrl-C, and what was under way then is captured, too.
        self._process = process = subprocess.Popen(
            ['/bin/sh', '-c', GUARD, 'sh', *words(where, 'capture', '--json', *file, *self._options)],
            stdin=subprocess.PIPE,
            stdout=self._lines,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

        assert process.stderr is not None
        said = process.stderr.readline().decode()
        if not said.startswith(BEGUN):
            # All that it says until it has ended.
            said += process.stderr.read().decode()
            self._process = None
            process.communicate()
            raise Error(told(said), process.returncode or 1)
        return self

    def stop(self) -> None:
        """Ends; what was under way is in the file."""
        process, self._process = self._process, None
        if process is None:
            return
        said = process.communicate(b'\n', timeout=PATIENCE)[1].decode()
        found = SUM.search(said)
        if process.returncode or found is None:
            raise Error(told(said), process.returncode)
        self._sum = int(found.group(1)), int(found.group(2))

    @property
    def captured(self) -> int:
        """How many packets were captured; known at the end."""
        return self._sum[0]

    @property
    def dropped(self) -> int:
        """How many records were dropped, as there was no room in a buffer; known at the end."""
        return self._sum[1]

    def packets(self) -> List[Packet]:
        """The packets so far, in the order of time. While the capture is under way the last few may have yet to come."""
        return [_packet(one) for one in self._objects('packet')]

    def events(self) -> List[Event]:
        """With `verbs`, what programs have done by their verbs so far."""
        return [Event(**one) for one in self._objects('verbs')]

    def __enter__(self) -> Capture:
        return self.start()

    def _end(self) -> None:
        self.stop()

    def _objects(self, kind: str) -> List[Dict[str, Any]]:
        """The objects of a kind, without it. The command may be writing the last line: only whole ones count."""
        if self._lines is None:
            return []
        # Its own position: the command goes on writing at the one that the two have in common.
        with open(f'/proc/self/fd/{self._lines.fileno()}', encoding='utf-8') as lines:
            text = lines.read()
        whole = text[: text.rfind('\n') + 1]
        objects = [json.loads(line) for line in whole.splitlines()]
        return [one for one in objects if one.pop('kind') == kind]


def capture(
    path: Union[str, os.PathLike[str], None] = None,
    *,
    qp: Union[int, Sequence[int]] = (),
    program: Union[str, Sequence[str]] = (),
    verbs: bool = False,
    both: bool = False,
    snaplen: Optional[int] = None,
    buffer: Optional[int] = None,
    device: Optional[Device] = None,
) -> Capture:
    """
    What programs of the device send and receive as long as the `with` lasts, into a file for Wireshark if there is a path.

    The keywords are the options of `ferroce capture` (docs/capture.md). `device` is another device than `ferroce.current()`.
    """
    options = []
    for number in [qp] if isinstance(qp, int) else qp:
        options += ['--qp', str(number)]
    for name in [program] if isinstance(program, str) else program:
        options += ['--program', name]
    options += ['--verbs'] * verbs + ['--both'] * both
    for option, value in (('--snaplen', snaplen), ('--buffer', buffer)):
        options += [] if value is None else [option, str(value)]
    return Capture(None if path is None else os.fspath(path), options, device)


def _packet(members: Dict[str, Any]) -> Packet:
    # `from` is a word of Python's own.
    source, destination = members.pop('from'), members.pop('to')
    return Packet(source=source, destination=destination, **members)
