# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Faults on command (`ferroce fault`), on as long as a `with` lasts.
"""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import Any, Dict, List, NoReturn, Optional, Type, Union

from ._command import Error, call, call_json
from ._device import Device, current
from ._within import Within

# A share of all: `'1%'`, or 0.01.
Share = Union[str, float]
# A span of time: `'1ms'`, or so many seconds.
Span = Union[str, float, timedelta]

# The kinds of keywords, in the order in which `ferroce fault add --help` has the options.
SHARES = ('loss', 'rate')
SPANS = ('delay', 'for_')
FLAGS = ('duplicate', 'reorder', 'rnr', 'disconnect')
# Options that may have a value.
EITHER = ('corrupt', 'port_down', 'gid_remove')


class Fault(Within):
    """A fault; `ferroce.fault` makes it. It is on within a `with`, or between `add` and `clear`."""

    def __init__(self, options: List[str], device: Optional[Device]) -> None:
        self._options = options
        self._device = device
        self._id: Optional[int] = None
        self._last: Optional[Dict[str, Any]] = None

    def __repr__(self) -> str:
        return f'<ferroce.Fault {self._id or "not added"}: {" ".join(self._options)}>'

    @classmethod
    def _added(cls, number: int, device: Device) -> Fault:
        """One that is on already."""
        fault = cls([], device)
        fault._id = number
        return fault

    def add(self) -> Fault:
        """Has it go wrong from now on; returns when every program that runs goes by it."""
        if self._id is not None and self._last is None:
            raise RuntimeError(f'fault {self._id} is on already')
        self._device = self._device or current()
        added = call_json(self._device.runtime_dir, 'fault', 'add', '--json', *self._options)
        self._id, self._last = int(added['id']), None
        return self

    @property
    def id(self) -> int:
        """Its number, as `ferroce fault list` has it."""
        if self._id is None:
            raise RuntimeError('the fault has not been added: `with`, or add()')
        return self._id

    @property
    def hits(self) -> int:
        """How often it has struck; of one that is over, how often it had."""
        return int(self.status()['hits'])

    def status(self) -> Dict[str, Any]:
        """Its object of `ferroce fault list --json`; of one that was cleared, the last."""
        number = self.id
        if self._last is not None:
            return self._last
        for one in call_json(self._where(), 'fault', 'list', '--json')['faults']:
            if one['id'] == number:
                found: Dict[str, Any] = one
                return found
        raise Error(f'there is no fault {number} any more: somebody has cleared it', 1)

    def wait(self, hits: int = 1, timeout: float = 30) -> None:
        """Waits until it has struck so often; raises Error where it has not after so many seconds, of which there are whole ones."""
        seconds = str(math.ceil(timeout))
        call(self._where(), 'fault', 'wait', str(self.id), '--hits', str(hits), '--timeout', seconds)

    def clear(self) -> None:
        """Ends it; returns when every program that runs knows. One that is cleared stays so."""
        if self._id is None or self._last is not None:
            return
        last = self.status()
        call(self._where(), 'fault', 'clear', str(self._id))
        self._last = last

    def __enter__(self) -> Fault:
        return self.add()

    def _end(self) -> None:
        self.clear()

    def _where(self) -> Optional[str]:
        return None if self._device is None else self._device.runtime_dir


class Scenario:
    """The faults of a file; `ferroce.scenario` makes it. They are on within a `with`, or between `add` and `clear`."""

    def __init__(self, file: str, device: Optional[Device]) -> None:
        self._file = file
        self._device = device
        self.faults: List[Fault] = []

    def add(self) -> Scenario:
        """Adds all of them, or none."""
        if self.faults:
            raise RuntimeError(f'{self._file} has been added already')
        self._device = device = self._device or current()
        numbers = call_json(device.runtime_dir, 'fault', 'load', '--json', self._file)
        self.faults = [Fault._added(int(number), device) for number in numbers]
        return self

    @property
    def hits(self) -> int:
        """How often they have struck, together."""
        return sum(fault.hits for fault in self.faults)

    def clear(self) -> None:
        """Ends all of them."""
        for fault in self.faults:
            fault.clear()

    def __enter__(self) -> Scenario:
        return self.add()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        with ExitStack() as faults:
            for fault in self.faults:
                faults.callback(fault.__exit__, kind, error, trace)


def fault(
    *,
    loss: Optional[Share] = None,
    drop: Optional[str] = None,
    delay: Optional[Span] = None,
    duplicate: bool = False,
    reorder: bool = False,
    corrupt: Union[bool, str] = False,
    rnr: bool = False,
    nak: Optional[str] = None,
    wc_error: Optional[str] = None,
    alloc_fail: Optional[str] = None,
    disconnect: bool = False,
    port_down: Union[bool, int] = False,
    gid_remove: Union[bool, int] = False,
    cm_reject: Optional[int] = None,
    qp: Union[int, str, None] = None,
    peer_qp: Union[int, str, None] = None,
    program: Optional[str] = None,
    pid: Optional[int] = None,
    direction: str = 'out',
    match: Optional[str] = None,
    rate: Optional[Share] = None,
    nth: Optional[int] = None,
    every: Optional[int] = None,
    count: Optional[int] = None,
    for_: Optional[Span] = None,
    seed: Optional[int] = None,
    device: Optional[Device] = None,
    **unknown: NoReturn,
) -> Fault:
    """
    Something that goes wrong, as long as the `with` lasts.

    The keywords are the options of `ferroce fault add` (docs/faults.md) with `_` for `-`. `direction='in'` is `--in`, and `for_` is
    `--for`, as Python has `in` and `for` itself. A share is a text (`'1%'`) or a number from 0 to 1, a time a text (`'1ms'`), a number
    of seconds or a timedelta. `device` is another device than `ferroce.current()`.

    Raises TypeError for a keyword that there is not, and Error, when it is added, for what the command refuses.
    """
    given = {name: value for name, value in locals().items() if name not in ('unknown', 'device')}
    if unknown:
        names = ', '.join(sorted(unknown))
        raise TypeError(f'fault() has no keyword {names}; it has {", ".join(given)} and device')
    return Fault(arguments(given), device)


def scenario(file: Union[str, os.PathLike[str]], *, device: Optional[Device] = None) -> Scenario:
    """The faults of a scenario file (docs/faults.md), as long as the `with` lasts."""
    return Scenario(os.fspath(file), device)


def arguments(given: Dict[str, Any]) -> List[str]:
    """Options of the command for keywords, those left out that say nothing."""
    options = []
    for name, value in given.items():
        if value is None or value is False and name in FLAGS + EITHER:
            continue
        options += [_direction(value)] if name == 'direction' else [_option(name, value)]
    return [option for option in options if option]


def _option(name: str, value: Any) -> str:
    option = '--' + name.rstrip('_').replace('_', '-')
    if name in FLAGS + EITHER and isinstance(value, bool):
        return option
    if name in FLAGS:
        raise TypeError(f'{name} is True or False, not {value!r}')
    if isinstance(value, bool):
        raise TypeError(f'{name} needs a value, not {value!r}')
    if name in SHARES:
        return f'{option}={_share(value)}'
    if name in SPANS:
        return f'{option}={_span(value)}'
    return f'{option}={value}'


def _direction(value: Any) -> str:
    if value not in ('in', 'out'):
        raise ValueError(f"direction is 'in' or 'out', not {value!r}")
    return '--in' if value == 'in' else ''


def _share(value: Share) -> str:
    """A share in percent, to the millionth of all, which is the least that the command knows."""
    if isinstance(value, str):
        return value
    if not 0 <= value <= 1:
        raise ValueError(f"a share is a number from 0 to 1, or a text as '1%', not {value!r}")
    return f'{value * 100:.4f}'.rstrip('0').rstrip('.') + '%'


def _span(value: Span) -> str:
    """A time, to the nanosecond."""
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return f'{round(seconds * 1_000_000_000)}ns'
