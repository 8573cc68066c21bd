# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Faults, as stock programs meet them.
"""

import subprocess

import pytest

import ferroce


def test_the_example_of_the_package(transfer):
    with ferroce.device() as device, ferroce.fault(loss=0.01, seed=7) as fault:
        transfer(device, device, '-n', '1000', '-t', '16')
        assert fault.hits > 0
        assert device.status()['counters']['roce_retransmits'] > 0


def test_a_program_survives_a_lost_acknowledgement(transfer):
    with ferroce.device() as device, ferroce.fault(drop='opcode=ACK', nth=3) as fault:
        before = device.status()['counters']
        transfer(device, device)
        after = device.status()['counters']
        fault.wait(hits=1)
        assert fault.hits == 1
    for name in ('local_ack_timeout_err', 'roce_retransmits', 'duplicate_request'):
        assert after[name] > before[name], name
    # The last that was known of it.
    assert fault.hits == 1


def test_between_two_devices_one_has_the_fault(transfer, monkeypatch):
    # Selective acknowledgements need no timeout, and a busy machine has them ask more than once.
    monkeypatch.setenv('FERROCE_RECOVERY', 'go-back-n')
    with ferroce.device(environment=False) as server, ferroce.device(environment=False) as client:
        with server.fault(drop='opcode=ACK', nth=3) as fault:
            transfer(server, client)
            assert fault.hits == 1
        assert client.status()['counters']['local_ack_timeout_err'] == 1
        assert server.status()['counters']['duplicate_request'] == 1


def test_it_is_on_as_long_as_it_is_said():
    with ferroce.device():
        with ferroce.fault(alloc_fail='create_qp', program='ibv_rc_pingpong') as fault:
            refused = subprocess.run(['ibv_rc_pingpong', '-g', '0'], capture_output=True, text=True)
            assert refused.returncode and "Couldn't create QP" in refused.stderr
            assert fault.hits == 1 and fault.id == 1
        assert fault.status()['fault']['action']['what'] == 'alloc-fail'
        with pytest.raises(ferroce.Error, match='there is no fault 1'):
            fault.wait()
        fault.clear()


def test_what_the_command_refuses_has_its_words_and_status():
    with ferroce.device() as device:
        for keywords, status, words in (
            (dict(loss='1'), 2, 'is no share'),
            (dict(loss=0.1, rnr=True), 2, 'two faults'),
            (dict(qp=1), 2, 'what is to go wrong'),
            (dict(cm_reject=28, qp=1), 2, '--qp means nothing to --cm-reject'),
        ):
            with pytest.raises(ferroce.Error, match=words) as refused:
                device.fault(**keywords).add()
            assert refused.value.status == status
        with device.fault(loss=0.1) as fault:
            with pytest.raises(ferroce.Error, match='has hit 0 times, not 2, after 1 s') as over:
                fault.wait(hits=2, timeout=0.2)
            assert over.value.status == 1
            with pytest.raises(RuntimeError, match='is on already'):
                fault.add()


def test_one_that_somebody_else_has_cleared_is_told():
    with ferroce.device() as device:
        with pytest.raises(ferroce.Error, match='somebody has cleared it'):
            with ferroce.fault(loss=0.1):
                subprocess.run([ferroce.command(), '--runtime-dir', device.runtime_dir, 'fault', 'clear'], check=True)


def test_a_scenario_has_its_faults_on_together(tmp_path, transfer):
    file = tmp_path / 'scenario.toml'
    file.write_text('seed = 7\n[[fault]]\nloss = "1%"\nprogram = "rping"\n[[fault]]\ndrop = "opcode=ACK"\nnth = 3\n')
    with ferroce.device() as device, ferroce.scenario(file) as scenario:
        transfer(device, device)
        assert [fault.hits for fault in scenario.faults] == [0, 1]
        assert scenario.hits == 1
        assert scenario.faults[1].status()['fault']['seed'] == 8
        scenario.clear()
    assert scenario.hits == 1

    file.write_text('[[fault]]\nlos = 1\n')
    with ferroce.device(), pytest.raises(ferroce.Error, match='unknown field `los`'):
        ferroce.scenario(file).add()
