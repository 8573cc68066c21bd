# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Runs rdma-core's test suite, every file of it as it is, each test in a process of its own that is given so long.

A device on which a test hangs, or which fails for good, spoils one line and not the rest. Run it in the suite's directory with the
options of run_tests.py. From the environment: LIMIT is the number of seconds that each test has. A line of JSON for each test goes to
RESULTS: its name, `passed`, `skipped`, `failed` or `hung`, and what the suite says.
"""

import json
import os
import select
import signal
import sys
import unittest
from importlib.machinery import SourceFileLoader

sys.path.insert(0, os.getcwd())
from args_parser import parser

tests = SourceFileLoader('tests', os.path.join(os.getcwd(), '__init__.py')).load_module()
parser.parse_args()
LIMIT = float(os.environ['LIMIT'])


def single(suite):
    """The tests of a suite, one by one."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from single(item)
        else:
            yield item


def ending(test):
    """Runs a test here: how it ended, and why."""
    result = unittest.TestResult()
    test.run(result)
    if result.skipped:
        return 'skipped', result.skipped[0][1]
    for kind in (result.errors, result.failures):
        if kind:
            return 'failed', kind[0][1].strip().splitlines()[-1]
    return 'passed', ''


def apart(test):
    """The same in another process, which is killed when its time is over."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        answer = ending(test)
        os.write(writer, json.dumps(answer).encode()[:4000])
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], LIMIT)
    text = os.read(reader, 4096) if ready else b''
    os.close(reader)
    if ready and not text:
        return 'failed', f'the process ended with {os.waitpid(child, 0)[1]}'
    # With all that the test has forked. A process that is stuck in the kernel is left there.
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(child, os.WNOHANG if not ready else 0)
    return json.loads(text) if ready else ('hung', f'not done in {LIMIT:.0f} s')


with open(os.environ['RESULTS'], 'w') as results:
    for test in single(unittest.defaultTestLoader.loadTestsFromModule(tests)):
        verdict, words = apart(test)
        name = test.id().removeprefix('tests.')
        results.write(json.dumps({'name': name, 'verdict': verdict, 'words': words}) + '\n')
        results.flush()
