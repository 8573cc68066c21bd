# SPDX-License-Identifier: MIT OR Apache-2.0
"""
A sender whose peer has no receive request posted: two queue pairs of this process, and a SEND from one to the other,
which is repeated as often as the argument says, with 7 for ever (rnr_retry). Prints the number of the sender and that of the receiver, and when it is told to
by a line of input posts the receive request, waits for both completions and says so.
"""

import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_QPT_RC, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_SEND
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

context = Context(name='ferroce0')
domain = PD(context)
region = MR(domain, 4096, IBV_ACCESS_LOCAL_WRITE)
queue = CQ(context, 16)
init = QPInitAttr(qp_type=IBV_QPT_RC, scq=queue, rcq=queue, cap=QPCap(4, 4, 1, 1))
ends = [QP(domain, init, QPAttr(port_num=1)) for _ in range(2)]

for end, other in zip(ends, reversed(ends)):
    route = GlobalRoute(dgid=context.query_gid(1, 0), sgid_index=0)
    attributes = QPAttr(port_num=1)
    attributes.dest_qp_num = other.qp_num
    attributes.path_mtu = 3
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
    attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attributes.timeout, attributes.retry_cnt = 14, 7
    attributes.rnr_retry, attributes.min_rnr_timer = int(sys.argv[1]), 18
    end.to_rts(attributes)

sender, receiver = ends
entry = SGE(region.buf, 64, region.lkey)
sender.post_send(SendWR(wr_id=1, opcode=IBV_WR_SEND, num_sge=1, sg=[entry], send_flags=IBV_SEND_SIGNALED))
print(sender.qp_num, receiver.qp_num, flush=True)

sys.stdin.readline()
receiver.post_recv(RecvWR(wr_id=2, num_sge=1, sg=[entry]))
left = 2
while left:
    count, completions = queue.poll(left)
    assert all(completion.status == IBV_WC_SUCCESS for completion in completions)
    left -= count
print('done', flush=True)
sys.stdin.readline()
