# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Devices: one that is up already, and one's own, which is up as long as a `with` lasts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from ._command import Error, call, call_json, command, words
from ._within import Within

if TYPE_CHECKING:
    from ._capture import Capture
    from ._fault import Fault, Scenario
    from ._views import Metric

# Waits for the process whose device it is. A line says that the device has been stopped; an end without one, that the process has died.
GUARD = 'if read -r _; then exit 0; fi; "$1" --runtime-dir "$2/run" down; rm -rf -- "$2"'
# How long the guard may take for what it does, which `ferroce down` bounds itself.
PATIENCE = 30.0

Words = Sequence[Union[str, 'os.PathLike[str]']]

# Those that have set the environment, the innermost last.
_inside: List[OwnDevice] = []


class Device:
    """A device that is up: programs are started over it, faults added to it, packets captured of it."""

    def __init__(self, runtime_dir: Optional[str] = None) -> None:
        self._runtime_dir = runtime_dir

    def __repr__(self) -> str:
        return f'<ferroce.{type(self).__name__} in {self._runtime_dir or "the default runtime directory"}>'

    @property
    def runtime_dir(self) -> Optional[str]:
        """The runtime directory; None: the one that the command takes where none is given."""
        return self._runtime_dir

    @property
    def name(self) -> str:
        """What programs call it, as ferroce0."""
        return str(self.status()['device']['name'])

    @property
    def addresses(self) -> List[str]:
        """Its addresses, in the order of its GID table."""
        return [str(gid['addr']) for gid in self.status()['gids']]

    @property
    def address(self) -> str:
        """The first of its addresses."""
        found = self.addresses
        if not found:
            raise Error('the device has no address', 1)
        return found[0]

    @property
    def variables(self) -> Dict[str, str]:
        """What a program's environment needs, as `ferroce env` has it. A daemon that would leave when it is idle stays from now on."""
        found = call_json(self._runtime_dir, 'env', '--json')
        return {name: str(value) for name, value in found.items()}

    @property
    def env(self) -> Dict[str, str]:
        """This process' environment with `variables`, for `subprocess.run(…, env=…)`."""
        return {**os.environ, **self.variables}

    def command(self, program: Words) -> List[str]:
        """The command line that starts a program over the device (`ferroce run`)."""
        return [*words(self._runtime_dir, 'run', '--'), *[os.fspath(word) for word in program]]

    def run(self, program: Words, **options: Any) -> subprocess.CompletedProcess[Any]:
        """`subprocess.run` of a program over the device, with its options."""
        return subprocess.run(self.command(program), **options)

    def popen(self, program: Words, **options: Any) -> subprocess.Popen[Any]:
        """`subprocess.Popen` of a program over the device, with its options."""
        return subprocess.Popen(self.command(program), **options)

    def wait(self, port: Optional[int] = None, timeout: int = 30) -> None:
        """Waits until a server listens at the port, or without one until the device's ports are active (`ferroce wait`)."""
        which = [] if port is None else [str(port)]
        call(self._runtime_dir, 'wait', *which, '--timeout', str(timeout))

    def fault(self, **options: Any) -> Fault:
        """`ferroce.fault` on this device."""
        from ._fault import fault

        return fault(device=self, **options)

    def scenario(self, file: Union[str, os.PathLike[str]]) -> Scenario:
        """`ferroce.scenario` on this device."""
        from ._fault import scenario

        return scenario(file, device=self)

    def capture(self, path: Union[str, os.PathLike[str], None] = None, **options: Any) -> Capture:
        """`ferroce.capture` of this device."""
        from ._capture import capture

        return capture(path, device=self, **options)

    def status(self) -> Dict[str, Any]:
        """What `ferroce status --json` has."""
        found: Dict[str, Any] = call_json(self._runtime_dir, 'status', '--json')
        return found

    def queue_pairs(self) -> List[Dict[str, Any]]:
        """The queue pairs of `ferroce top --batch --json`, with their hints."""
        from ._views import queue_pairs

        return queue_pairs(self)

    def metrics(self) -> List[Metric]:
        """The samples of `ferroce metrics`."""
        from ._views import metrics

        return metrics(self)


class OwnDevice(Within, Device):
    """
    A device with a daemon, a runtime directory and an address of its own; `ferroce.device` makes it.

    It is up within a `with`, or between `up` and `down`. If this process dies, however it does, its device goes, too.
    """

    def __init__(self, options: Sequence[str], environment: bool) -> None:
        super().__init__()
        self._options = list(options)
        self._environment = environment
        self._place: Optional[str] = None
        self._guard: Optional[subprocess.Popen[bytes]] = None
        self._variables: Dict[str, str] = {}
        # What the environment had before.
        self._before: Dict[str, Optional[str]] = {}

    @property
    def variables(self) -> Dict[str, str]:
        """What a program's environment needs, as `ferroce env` has it."""
        return dict(self._variables)

    def up(self) -> None:
        """Starts the daemon, and sets this process' environment, unless it is not to."""
        if self._place is not None:
            raise RuntimeError('the device is up already')
        ferroce = command()
        self._place = place = tempfile.mkdtemp(prefix='ferroce-')
        self._runtime_dir = str(Path(place, 'run'))

        try:
            self._guard = _guard(ferroce, place)
            call(self._runtime_dir, 'up', *self._options)
            self._variables = super().variables
        except BaseException:
            self._leave(stopped=False)
            raise
        if self._environment:
            self._set_environment()

    def down(self) -> None:
        """Stops the daemon, and gives the environment back. Programs that still use the device see it fail."""
        if self._place is None:
            return
        if self in _inside:
            self._restore_environment()
        stopped = False
        try:
            call(self._runtime_dir, 'down')
            stopped = True
        finally:
            self._leave(stopped)

    def __enter__(self) -> OwnDevice:
        self.up()
        return self

    def _end(self) -> None:
        self.down()

    def _leave(self, stopped: bool) -> None:
        """Ends the guard, who does what is left to do, and takes the directory away."""
        place, self._place = self._place, None
        guard, self._guard = self._guard, None
        self._variables = {}
        if guard is not None:
            assert guard.stdin is not None
            _tell(guard.stdin, stopped)
            guard.wait(PATIENCE)
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)

    def _set_environment(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)
        _inside.append(self)

    def _restore_environment(self) -> None:
        """The innermost gives back what was; one that ends before those within it leaves that to the next."""
        at = _inside.index(self)
        del _inside[at]
        if at < len(_inside):
            _inside[at]._before = self._before
            return
        _assign(self._before)


def device(
    *,
    addr: Union[str, Sequence[str]] = (),
    netdev: Optional[str] = None,
    link_layer: Optional[str] = None,
    cable: Union[str, Sequence[str]] = (),
    name: Optional[str] = None,
    config: Union[str, os.PathLike[str], None] = None,
    stretch_timeouts: Optional[int] = None,
    congestion: Optional[str] = None,
    environment: bool = True,
) -> OwnDevice:
    """
    A device of one's own, up as long as the `with` lasts.

    The arguments are the options of `ferroce up`; without any it is at an address of the loopback interface that is free, whatever the
    user's configuration file says. With `environment` all programs that this process starts meanwhile see the device; without, those
    that are started by its `run`, `popen`, `command` or `env`, as is wanted where there are two.
    """
    options = ['--config', os.devnull if config is None else os.fspath(config)]
    for one in [addr] if isinstance(addr, str) else addr:
        options += ['--addr', one]
    for one in [cable] if isinstance(cable, str) else cable:
        options += ['--cable', one]
    for option, value in (('--netdev', netdev), ('--link-layer', link_layer), ('--name', name), ('--congestion', congestion)):
        options += [] if value is None else [option, value]
    if stretch_timeouts is not None:
        options += ['--stretch-timeouts', str(stretch_timeouts)]
    return OwnDevice(options, environment)


def current() -> Device:
    """
    The device that this process' programs see: the innermost `ferroce.device()`, else the one of FERROCE_RUNTIME_DIR, else that of the
    default runtime directory.

    Raises Error where none is up.
    """
    if _inside:
        return _inside[-1]
    found = Device(os.environ.get('FERROCE_RUNTIME_DIR') or None)
    found.status()
    return found


def _guard(ferroce: str, place: str) -> subprocess.Popen[bytes]:
    """Starts the guard, in a session of its own: what ends this process' group from a terminal shall not end it."""
    return subprocess.Popen(
        ['/bin/sh', '-c', GUARD, 'sh', ferroce, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd='/',
        start_new_session=True,
    )


def _tell(pipe: IO[bytes], stopped: bool) -> None:
    try:
        if stopped:
            pipe.write(b'\n')
        pipe.close()
    except BrokenPipeError:
        # Somebody has ended the guard.
        pass


def _assign(variables: Mapping[str, Optional[str]]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
