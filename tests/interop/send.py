"""Sends UDP payloads from an address, given as lines of hex on standard input: send.py FROM PORT TO.

With DF enforced Linux gives IPv4 datagrams the Identification 0, which the ICRC of RoCEv2 covers.
"""
import socket
import sys

IP_PMTUDISC_DO = 2

source, port, target = sys.argv[1:]
family = socket.AF_INET6 if ":" in source else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as out:
    if family == socket.AF_INET:
        out.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_MTU_DISCOVER", 10), IP_PMTUDISC_DO)
    out.bind((source, int(port)))
    for line in sys.stdin:
        out.sendto(bytes.fromhex(line), (target, 4791))
