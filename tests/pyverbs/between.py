# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Runs rdma-core's test suite, every file of it as it is, with the two ends of each traffic test on two hosts.

The suite makes both ends in one process, on the one device that --dev names, and lets each end send to an address that
it reads from its own device's GID table. Here, each second end that a test makes is opened on the device of another
daemon, and each end reads the other's address where the suite lets it read its own. The rest is the suite's.

Run it in the suite's directory with the options of run_tests.py. From the environment: FERROCE_RUNTIME_DIR is the directory
of the one daemon and FAR_RUNTIME_DIR that of the other, NEAR_GID and FAR_GID are their GIDs, and ENDS_FILE is where
the names of the tests go that had an end on either.
"""

import os
import runpy
import sys
import unittest

from pyverbs.addr import GID, GlobalRoute
from pyverbs.device import Context

DIRECTORIES = [os.environ['FERROCE_RUNTIME_DIR'], os.environ['FAR_RUNTIME_DIR']]
GIDS = [os.environ['NEAR_GID'], os.environ['FAR_GID']]


class Current:
    """The test that runs, how many ends it has made, and the contexts of those on the far host."""

    name = None
    ends = 0
    far = []


def create_context(resources):
    """In place of BaseResources.create_context: the ends of a test are on the two hosts by turns."""
    host = Current.ends % 2
    Current.ends += 1
    if Current.ends == 2:
        with open(os.environ['ENDS_FILE'], 'a') as file:
            print(Current.name, file=file)
    # The provider looks for its daemon when a device is opened.
    os.environ['FERROCE_RUNTIME_DIR'] = DIRECTORIES[host]
    try:
        resources.ctx = Context(name=resources.dev_name)
    finally:
        os.environ['FERROCE_RUNTIME_DIR'] = DIRECTORIES[0]
    if host == 1:
        Current.far.append(resources.ctx)


def global_route(dgid, sgid_index):
    """
    In place of GlobalRoute where the suite has just read the GID of an end's own device: the other end's. Whose end it
    is, only the caller's variables say.
    """
    caller = sys._getframe(1).f_locals
    end = caller.get('self') or caller.get('agr_obj')
    context = end.ctx if end else caller['ctx']
    on_far_host = any(context is far for far in Current.far)
    return GlobalRoute(dgid=GID(GIDS[0 if on_far_host else 1]), sgid_index=sgid_index)


def main(*arguments, **options):
    """In place of unittest.main, which run_tests.py calls when all of the suite is loaded."""
    base = sys.modules['tests.base']
    base.BaseResources.create_context = create_context
    base.GlobalRoute = global_route
    sys.modules['tests.utils'].GlobalRoute = global_route
    set_up = base.RDMATestCase.setUp

    def begin(test):
        Current.name = test.id()
        Current.ends = 0
        Current.far = []
        set_up(test)

    base.RDMATestCase.setUp = begin
    unittest_main(*arguments, **options)


unittest_main = unittest.main
unittest.main = main
sys.path.insert(0, os.getcwd())
runpy.run_path(os.path.abspath('run_tests.py'), run_name='__main__')
