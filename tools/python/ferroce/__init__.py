# SPDX-License-Identifier: MIT OR Apache-2.0
"""
ferroce from Python: a device of one's own, faults on command, captures and what the device tells of itself.

    import subprocess

    import ferroce

    with ferroce.device(), ferroce.fault(loss=0.01, seed=7):
        subprocess.run(['my_rdma_test'], check=True)

All of it is done by the command `ferroce`, which is found where this package was installed with it. Programs that are started see the
device; this very process does not, as libraries were loaded before it could be told. docs/python.md has all of it.
"""

import sys

if sys.version_info < (3, 9):
    raise ImportError('the package ferroce needs Python 3.9 or later')

from ._capture import Capture, Event, Packet, capture
from ._command import CommandNotFound, Error, command
from ._device import Device, OwnDevice, current, device
from ._fault import Fault, Scenario, fault, scenario
from ._views import Metric, metrics, queue_pairs, status

__all__ = [
    'Capture',
    'CommandNotFound',
    'Device',
    'Error',
    'Event',
    'Fault',
    'Metric',
    'OwnDevice',
    'Packet',
    'Scenario',
    'capture',
    'command',
    'current',
    'device',
    'fault',
    'metrics',
    'queue_pairs',
    'scenario',
    'status',
]
