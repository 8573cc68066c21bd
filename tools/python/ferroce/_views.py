# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What a device tells of itself, as the command prints it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ._command import call, call_json
from ._device import Device, current

# A sample of OpenMetrics; what may stand behind its value, time and exemplar, `ferroce metrics` does not print.
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
ESCAPES = {'\\\\': '\\', '\\"': '"', '\\n': '\n'}


@dataclass(frozen=True)
class Metric:
    """A sample."""

    name: str
    labels: Dict[str, str]
    value: float


def status(device: Optional[Device] = None) -> Dict[str, Any]:
    """What `ferroce status --json` has: device, GIDs, programs, counters by name."""
    return (device or current()).status()


def queue_pairs(device: Optional[Device] = None) -> List[Dict[str, Any]]:
    """The queue pairs of `ferroce top --batch --json`, each as docs/top.md has it, with its hints."""
    where = (device or current()).runtime_dir
    sample = call_json(where, 'top', '--batch', '--json', '-n', '1')
    return list(sample['queue_pairs'])


def metrics(device: Optional[Device] = None) -> List[Metric]:
    """The samples of `ferroce metrics`, as docs/metrics.md lists them."""
    return parse(call((device or current()).runtime_dir, 'metrics'))


def parse(text: str) -> List[Metric]:
    """The samples of a text in OpenMetrics' format."""
    lines = (line for line in text.splitlines() if line and not line.startswith('#'))
    return [_sample(line) for line in lines]


def _sample(line: str) -> Metric:
    found = SAMPLE.fullmatch(line)
    if found is None:
        raise ValueError(f'no sample of OpenMetrics: {line!r}')
    name, labels, value = found.groups(default='')
    return Metric(name, {one.group(1): _unescaped(one.group(2)) for one in LABEL.finditer(labels)}, float(value))


def _unescaped(text: str) -> str:
    return re.sub(r'\\.', lambda found: ESCAPES.get(found.group(), found.group()), text)
