# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Devices of one's own: who sees them, and that they go, whatever becomes of the process that has them.
"""

import json
import os
import signal
import subprocess

import pytest

import ferroce

NAMES = ('LD_PRELOAD', 'RDMAV_DRIVERS', 'FERROCE_RUNTIME_DIR')

# Says where its device is, and waits.
HOLDS = """
import json, sys, ferroce
with ferroce.device() as device:
    place = device.runtime_dir
    print(json.dumps([place, device.status()['pid'], device._guard.pid]), flush=True)
    sys.stdin.readline()
    {then}
"""


def variables():
    return {name: os.environ.get(name) for name in NAMES}


def seen():
    return subprocess.run(['ibv_devices'], capture_output=True, text=True, check=True).stdout


def test_programs_see_it_as_long_as_it_is_up():
    before = variables()
    with ferroce.device() as device:
        assert device.name == 'ferroce0' and device.address == device.addresses[0]
        assert 'ferroce0' in seen()
        assert ferroce.current() is device
        assert ferroce.status()['pid'] == device.status()['pid']
        directory = device.runtime_dir
    assert variables() == before
    assert not os.path.exists(os.path.dirname(directory))


def test_without_the_environment_programs_see_it_that_it_starts():
    before = variables()
    with ferroce.device(environment=False) as device:
        assert variables() == before
        for way in (dict(args=device.command(['ibv_devices'])), dict(args=['ibv_devices'], env=device.env)):
            done = subprocess.run(capture_output=True, text=True, check=True, **way)
            assert 'ferroce0' in done.stdout
        assert 'ferroce0' in device.run(['ibv_devices'], capture_output=True, text=True).stdout


def test_they_nest():
    before = variables()
    with ferroce.device() as one:
        outside = variables()
        with ferroce.device() as other:
            assert ferroce.current() is other and one.address != other.address
            assert os.environ['FERROCE_RUNTIME_DIR'] == other.runtime_dir
            assert os.environ['LD_PRELOAD'].count('shim') == 1
            assert 'ferroce0' in seen()
        assert variables() == outside
        assert ferroce.current() is one
    assert variables() == before


def test_they_need_not_end_in_order():
    before = variables()
    one, other = ferroce.device(), ferroce.device()
    one.up()
    other.up()
    one.down()
    assert os.environ['FERROCE_RUNTIME_DIR'] == other.runtime_dir and ferroce.current() is other
    other.down()
    assert variables() == before
    other.down()


def test_an_exception_ends_it(ended):
    with pytest.raises(ZeroDivisionError):
        with ferroce.device() as device:
            pid = device.status()['pid']
            1 / 0
    ended(pid)
    assert 'FERROCE_RUNTIME_DIR' not in os.environ


@pytest.mark.parametrize('how', [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_its_process_ends_it(script, ended, how):
    process = script(HOLDS.format(then=''))
    place, daemon, guard = json.loads(process.stdout.readline())
    process.send_signal(how)
    process.wait(60)
    ended(daemon)
    ended(guard)
    assert not os.path.exists(os.path.dirname(place))


def test_a_daemon_that_has_died_does_not_hide_what_went_wrong():
    with pytest.raises(ZeroDivisionError):
        with ferroce.device() as device, ferroce.fault(loss=0.1):
            os.kill(device.status()['pid'], signal.SIGKILL)
            1 / 0
    assert 'FERROCE_RUNTIME_DIR' not in os.environ


def test_a_device_that_cannot_be_is_refused_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    with pytest.raises(ferroce.Error) as refused:
        with ferroce.device(addr='192.0.2.77'):
            pass
    assert refused.value.status == 1 and '192.0.2.77' in str(refused.value)
    with pytest.raises(ferroce.Error) as refused:
        ferroce.device(link_layer='token-ring').up()
    assert refused.value.status == 2
    assert not list(tmp_path.iterdir())


def test_one_that_is_up_is_found(monkeypatch):
    with ferroce.device(environment=False) as device:
        monkeypatch.setenv('FERROCE_RUNTIME_DIR', device.runtime_dir)
        found = ferroce.current()
        assert found.status()['pid'] == device.status()['pid']
        assert 'ferroce0' in found.run(['ibv_devices'], capture_output=True, text=True).stdout
    with pytest.raises(ferroce.Error, match='no ferroced answers'):
        ferroce.current()


def test_what_it_tells_of_itself(transfer):
    with ferroce.device() as device:
        transfer(device, device)
        counted = device.status()['counters']['rx_write_requests']
        assert counted == 10
        samples = {one.name: one.value for one in ferroce.metrics() if set(one.labels) == {'device'}}
        assert samples['ferroce_rx_write_requests_total'] == counted
        assert ferroce.queue_pairs() == []
