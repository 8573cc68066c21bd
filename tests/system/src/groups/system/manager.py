"""Starts what the unit starts, with the rights that it has there, as a service manager that waits for
word of it; ends it when the word has come."""

import os
import socket
import subprocess
import sys

PLACE = "/run/notify"

manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(PLACE)
manager.settimeout(20)
rights = ["setpriv", "--bounding-set=-all,+chown,+net_admin", "--inh-caps=-all", "--no-new-privs"]
service = subprocess.Popen(rights + sys.argv[1:], env=dict(os.environ, NOTIFY_SOCKET=PLACE))
try:
    print("told:", manager.recv(100).decode().strip())
finally:
    service.terminate()
    print("ended:", service.wait(20))
    os.unlink(PLACE)
