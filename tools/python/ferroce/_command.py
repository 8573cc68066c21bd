# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The command `ferroce`: where it is, and how it is asked. Nothing else in the package starts it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, List, Optional

# Names another `ferroce` than the one that would be found.
VARIABLE = 'FERROCE_COMMAND'
INSTALL = 'install ferroce (its wheel, its package, or `cargo xtask install`)'


class Error(Exception):
    """The command has refused something: its words, and its exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class CommandNotFound(Error):
    """There is no command `ferroce`."""

    def __init__(self, why: str) -> None:
        super().__init__(why, 127)


def command() -> str:
    """
    The path of the command `ferroce`.

    In this order: the one that FERROCE_COMMAND names; the one that was installed with this package, which is in the directory `bin` of
    the same prefix or environment; that of a checkout, if it is built (target/release); the first in PATH.

    Raises CommandNotFound.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not _is_program(Path(named)):
            raise CommandNotFound(f'{VARIABLE} names {named}, which is no program: unset it, or {INSTALL}')
        return named

    package = Path(__file__).resolve().parent
    own = _own(package)
    if _is_program(own):
        return str(own)

    found = shutil.which('ferroce')
    if found is None:
        raise CommandNotFound(f'there is no command `ferroce`, neither installed with {package} nor in PATH: {INSTALL}')
    return found


def _own(package: Path) -> Path:
    """
    Where the command of a package is, if it is there: of one in tools/python of a checkout, in target/release; of others, three
    directories above the one that Python looks in (lib/python3.11/site-packages, share/ferroce/python), in bin. Nowhere else above is
    looked: such a directory may be anybody's.
    """
    if package.parent.name == 'python' and package.parents[1].name == 'tools':
        return package.parents[2] / 'target/release/ferroce'
    above = list(package.parents)
    return above[min(3, len(above) - 1)] / 'bin/ferroce'


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def words(runtime_dir: Optional[str], *arguments: str) -> List[str]:
    """A command line, for the device of a runtime directory or, without, the one that the command takes."""
    device = [] if runtime_dir is None else ['--runtime-dir', runtime_dir]
    return [command(), *device, *arguments]


def call(runtime_dir: Optional[str], *arguments: str) -> str:
    """
    What the command prints. What it says besides, as of programs that have lost their device, goes to standard error.

    Raises Error where it fails.
    """
    done = subprocess.run(
        words(runtime_dir, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding='utf-8'
    )
    if done.returncode:
        raise Error(told(done.stderr), done.returncode)
    sys.stderr.write(done.stderr)
    return done.stdout


def call_json(runtime_dir: Optional[str], *arguments: str) -> Any:
    """What the command prints as JSON."""
    return json.loads(call(runtime_dir, *arguments))


def told(stderr: str) -> str:
    """What is wrong, of what the command says: without its name, and without where its help is."""
    text = stderr.split('\nUsage: ')[0].split('\nFor more information')[0].strip()
    for start in ('ferroce: ', 'error: '):
        text = text[len(start):] if text.startswith(start) else text
    return text or 'the command `ferroce` has failed and says nothing'
