# SPDX-License-Identifier: MIT OR Apache-2.0
"""
pytest's plugin: devices, faults and captures as fixtures, and faults as a marker.

Installed with the package, pytest loads it by itself; elsewhere, `pytest -p ferroce.pytest_plugin`. Nothing is started for a test that
asks for nothing. Where there is no command `ferroce`, a test that asks fails with word of what to install: it is not skipped.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, Generator, Iterator, List, Tuple

import pytest

import ferroce

MARKER = 'ferroce_fault(**fault): something that goes wrong on the device of the test, with the keywords of ferroce.fault()'
# What a test's capture and its failure are kept as, with the test.
CAPTURE = '_ferroce_capture'
FAILED = '_ferroce_failed'


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line('markers', MARKER)


@pytest.fixture
def ferroce_device() -> Iterator[ferroce.OwnDevice]:
    """A device for this test alone. Programs that are started by the test see it."""
    with ferroce.device() as device:
        yield device


@pytest.fixture(scope='session')
def ferroce_session_device() -> Iterator[ferroce.OwnDevice]:
    """
    A device for all tests that ask for it, up until the last has ended. Programs see it that are started by its `run`, `popen`,
    `command` or `env`, as other tests shall not see it.
    """
    with ferroce.device(environment=False) as device:
        yield device


@pytest.fixture
def ferroce_pair() -> Iterator[Tuple[ferroce.OwnDevice, ferroce.OwnDevice]]:
    """Two devices, as of two hosts, for this test alone. Programs see the one by whose `run`, `popen`, `command` or `env` they start."""
    with ferroce.device(environment=False) as one, ferroce.device(environment=False) as other:
        yield one, other


@pytest.fixture
def ferroce_fault(request: pytest.FixtureRequest) -> Iterator[Callable[..., ferroce.Fault]]:
    """
    Adds a fault, with the keywords of ferroce.fault(), and returns it; it is cleared when the test has ended. It is on the test's
    device: of a pair, on the first, unless `device` names the other.
    """
    with ExitStack() as faults:

        def add(**options: Any) -> ferroce.Fault:
            options.setdefault('device', _devices(request)[0])
            return faults.enter_context(ferroce.fault(**options))

        yield add


@pytest.fixture
def ferroce_capture(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ferroce.Capture]:
    """
    Captures what the test's programs send and receive, of a pair at the first device. The file, beside `tmp_path`, is kept where the
    test fails; its report says where.
    """
    path = tmp_path.with_name(f'{tmp_path.name}.pcapng')
    capture = ferroce.capture(path, device=_devices(request)[0])
    with capture:
        setattr(request.node, CAPTURE, str(path))
        yield capture
    if not getattr(request.node, FAILED, False):
        path.unlink()


@pytest.fixture(autouse=True)
def _ferroce_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """The faults of a test's markers, on all of its devices."""
    with ExitStack() as faults:
        for mark in request.node.iter_markers('ferroce_fault'):
            if mark.args:
                raise TypeError(f'ferroce_fault takes keywords, as in ferroce_fault(loss=0.01), not {mark.args}')
            for device in _devices(request):
                faults.enter_context(ferroce.fault(device=device, **mark.kwargs))
        yield


@pytest.hookimpl(hookwrapper=True)  # type: ignore[misc]
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Notes that a test has failed, and has its report say where its capture is."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    path = getattr(item, CAPTURE, None)
    if report.failed:
        setattr(item, FAILED, True)
        if path is not None:
            report.sections.append(('ferroce capture', f'wireshark {path}'))


def _devices(request: pytest.FixtureRequest) -> List[ferroce.OwnDevice]:
    """The devices of a test: those that it asks for, else one of its own."""
    if 'ferroce_pair' in request.fixturenames:
        return list(request.getfixturevalue('ferroce_pair'))
    for name in ('ferroce_device', 'ferroce_session_device'):
        if name in request.fixturenames:
            return [request.getfixturevalue(name)]
    return [request.getfixturevalue('ferroce_device')]
