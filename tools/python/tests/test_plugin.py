# SPDX-License-Identifier: MIT OR Apache-2.0
"""
pytest's plugin, in runs of pytest's own.
"""

import os
import re

import pytest


@pytest.fixture(autouse=True)
def plugged(pytester, monkeypatch):
    """The runs are processes of their own, which load the plugin by its name."""
    monkeypatch.setenv('PYTEST_ADDOPTS', '-p ferroce.pytest_plugin -p no:cacheprovider')


# A program and its devices, as test files have it.
TRANSFER = """
import subprocess, ferroce

def transfer(server, client):
    line = ['ib_write_bw', '-F', '-n', '10', '-t', '1', '-s', '64', '-p', '{port}']
    with server.popen(line, stdout=subprocess.DEVNULL) as listener:
        server.wait({port})
        client.run([*line, server.address], check=True, stdout=subprocess.DEVNULL)
    assert listener.returncode == 0
"""


@pytest.fixture
def tests(pytester):
    from conftest import free_port

    def run(text):
        pytester.makepyfile(TRANSFER.format(port=free_port()) + text)
        return pytester.runpytest_subprocess('-v')

    return run


def test_devices(tests):
    result = tests(
        """
import os
kept = []

def test_own(ferroce_device):
    assert os.environ['FERROCE_RUNTIME_DIR'] == ferroce_device.runtime_dir
    assert ferroce.current() is ferroce_device

def test_session(ferroce_session_device):
    assert 'FERROCE_RUNTIME_DIR' not in os.environ
    kept.append(ferroce_session_device)

def test_session_again(ferroce_session_device):
    assert kept == [ferroce_session_device]
    transfer(ferroce_session_device, ferroce_session_device)

def test_pair(ferroce_pair):
    one, other = ferroce_pair
    assert one.address != other.address
    transfer(one, other)

def test_none():
    assert 'FERROCE_RUNTIME_DIR' not in os.environ
"""
    )
    result.assert_outcomes(passed=5)


def test_faults(tests):
    result = tests(
        """
import pytest

def test_factory(ferroce_device, ferroce_fault):
    fault = ferroce_fault(drop='opcode=ACK', nth=3)
    transfer(ferroce_device, ferroce_device)
    assert fault.hits == 1

def test_of_a_pair(ferroce_pair, ferroce_fault):
    one, other = ferroce_pair
    faults = [ferroce_fault(drop='opcode=ACK', nth=3), ferroce_fault(drop='opcode=ACK', nth=3, device=other)]
    transfer(one, other)
    assert [fault.hits for fault in faults] == [1, 0]

@pytest.mark.ferroce_fault(drop='opcode=ACK', nth=3)
def test_marked(ferroce_session_device):
    transfer(ferroce_session_device, ferroce_session_device)
    assert ferroce_session_device.status()['counters']['local_ack_timeout_err'] == 1

def test_cleared(ferroce_session_device):
    assert ferroce_session_device.fault(loss=0.1).add().id == 2

@pytest.mark.ferroce_fault(loss=0.5, program='nobody')
@pytest.mark.ferroce_fault(rnr=True)
def test_without_a_device():
    assert ferroce.fault(loss=0.1).add().id == 3
"""
    )
    result.assert_outcomes(passed=5)


def test_marks_that_make_no_sense_are_errors(tests):
    result = tests(
        """
import pytest

@pytest.mark.ferroce_fault(los=0.5)
def test_keyword(ferroce_device): pass

@pytest.mark.ferroce_fault('1%')
def test_plain(ferroce_device): pass

@pytest.mark.ferroce_fault(loss='1')
def test_value(ferroce_device): pass
"""
    )
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(['*no keyword los; it has loss, *', '*takes keywords, as in *', '*is no share*'])


def test_a_capture_is_kept_where_the_test_fails(tests, tmp_path):
    result = tests(
        """
def test_passes(ferroce_device, ferroce_capture):
    transfer(ferroce_device, ferroce_device)
    ferroce_capture.stop()
    assert len([one for one in ferroce_capture.packets() if one.opcode == 'RC RDMA WRITE Only']) == 10

def test_fails(ferroce_device, ferroce_capture):
    transfer(ferroce_device, ferroce_device)
    assert False
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    files = re.findall(r'^wireshark (.*\.pcapng)$', result.stdout.str(), re.MULTILINE)
    assert len(files) == 1
    assert os.path.getsize(files[0]) > 1000
    assert [name for name in os.listdir(os.path.dirname(files[0])) if name.endswith('.pcapng')] == [os.path.basename(files[0])]


def test_without_a_command_tests_fail_and_are_told_why(tests, monkeypatch):
    monkeypatch.setenv('FERROCE_COMMAND', '/none/ferroce')
    result = tests('\ndef test_it(ferroce_device): pass\n\ndef test_other(): pass\n')
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(['*CommandNotFound: *install ferroce (its wheel*'])
