# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What the tests of the package share: transfers by stock programs between devices.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

pytest_plugins = ['pytester', 'ferroce.pytest_plugin']

# As long as anything here may take, in seconds.
LIMIT = 60


def free_port():
    """A port that nobody has, for a server's TCP socket."""
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]


@pytest.fixture
def transfer():
    """
    Ten WRITEs, each of which waits for the one before to be acknowledged, by ib_write_bw from a device to another. Returns what its
    client printed; both ends have to succeed.
    """

    def run(server, client, *options):
        port = str(free_port())
        line = ['ib_write_bw', '-F', '-n', '10', '-t', '1', '-s', '64', '-p', port, *options]
        with server.popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as listener:
            try:
                server.wait(int(port))
                done = client.run([*line, server.address], capture_output=True, text=True, timeout=LIMIT)
                said, _ = listener.communicate(timeout=LIMIT)
            finally:
                listener.kill()
        assert done.returncode == 0, done.stdout + done.stderr
        assert listener.returncode == 0, said
        return done.stdout

    return run


@pytest.fixture
def script():
    """Starts a script that uses the package; it is killed at the end, if it has not ended by then."""
    with contextlib.ExitStack() as running:

        def start(text):
            process = subprocess.Popen(
                [sys.executable, '-c', text],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                # Where the tests run in the background of a shell it is ignored, and children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            running.callback(process.wait)
            running.callback(process.kill)
            return process

        yield start


@pytest.fixture
def ended():
    """Waits until a process has ended, which need not be a child."""

    def wait(pid):
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            assert select.select([process], [], [], LIMIT)[0], f'process {pid} does not end'
        finally:
            os.close(process)

    return wait
