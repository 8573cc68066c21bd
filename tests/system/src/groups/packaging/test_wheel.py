# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What a user of the wheel writes: that an application survives a lost acknowledgement.
"""

import subprocess
import sys

import pytest

import ferroce

# Each WRITE waits for the one before to be acknowledged.
LINE = ['ib_write_bw', '-F', '-n', '10', '-t', '1', '-s', '64']


def test_the_command_is_that_of_the_environment():
    assert ferroce.command() == sys.prefix + '/bin/ferroce'


@pytest.mark.ferroce_fault(drop='opcode=ACK', nth=3)
def test_a_lost_acknowledgement(ferroce_device, ferroce_capture):
    server = subprocess.Popen(LINE)
    ferroce_device.wait(18515)
    subprocess.run([*LINE, ferroce_device.address], check=True)
    assert server.wait(60) == 0
    assert ferroce.status()['counters']['local_ack_timeout_err'] == 1
    ferroce_capture.stop()
    writes = [one for one in ferroce_capture.packets() if one.opcode == 'RC RDMA WRITE Only']
    assert len(writes) == 11
