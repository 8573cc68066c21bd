# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Captures: what is in the file is what the objects say.
"""

import collections
import subprocess

import pytest

import ferroce


def opcodes(file):
    """The opcodes that tshark finds."""
    line = ['tshark', '-n', '-r', str(file), '-T', 'fields', '-e', 'infiniband.bth.opcode']
    return [int(word) for word in subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()]


def test_a_lost_acknowledgement_is_to_be_seen(tmp_path, transfer):
    file = tmp_path / 'x.pcapng'
    with ferroce.device() as device, ferroce.fault(drop='opcode=ACK', nth=3):
        with ferroce.capture(file) as capture:
            transfer(device, device)
        packets = capture.packets()

    assert len(packets) == capture.captured and capture.dropped == 0
    writes = [one for one in packets if one.opcode == 'RC RDMA WRITE Only']
    numbers = collections.Counter(one.psn for one in writes)
    assert len(numbers) == 10 and sorted(numbers.values()) == [1] * 9 + [2]
    again = max(numbers, key=numbers.get)
    acknowledged = [one.psn for one in packets if one.syndrome == 'ACK']
    # The one that was lost was never sent; the second one is.
    assert acknowledged.count(again) == 1
    assert {one.length for one in writes} == {64} and {one.payload for one in writes} == {64}
    assert {(one.program, one.direction, one.medium) for one in packets} == {('ib_write_bw', 'out', 'memory')}
    assert [one.time_ns for one in packets] == sorted(one.time_ns for one in packets)

    assert opcodes(file) == [one.opcode_number for one in packets]


def test_of_one_program_and_with_verbs(transfer):
    with ferroce.device() as device:
        with ferroce.capture(program='rping') as none, device.capture(verbs=True, snaplen=64) as all_of_it:
            transfer(device, device)
    assert none.packets() == [] and none.captured == 0 and none.path is None
    posted = [one for one in all_of_it.events() if one.verb == 'post_send']
    completed = [one for one in all_of_it.events() if one.verb == 'completion']
    assert len(posted) == len(completed) == 10
    assert {(one.opcode, one.bytes) for one in posted} == {('RDMA_WRITE', 64)}
    assert {one.status for one in completed} == {'SUCCESS'}
    assert 'RTS' in {one.state for one in all_of_it.events() if one.verb == 'state'}


def test_what_cannot_be_captured_is_told(tmp_path):
    with ferroce.device(), pytest.raises(ferroce.Error, match='No such file or directory') as refused:
        ferroce.capture(tmp_path / 'none' / 'x.pcapng').start()
    assert refused.value.status == 1
    with ferroce.device(), pytest.raises(ferroce.Error, match='0 to 0xffffff') as refused:
        ferroce.capture(qp=1 << 24).start()
    assert refused.value.status == 2


def test_a_device_that_goes_ends_it():
    device = ferroce.device()
    device.up()
    with device.capture() as capture:
        device.down()
    assert capture.captured == 0
