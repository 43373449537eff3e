"""The program that Spark starts as its Python: it lets the fork server run it. See ``fork_server``.

The script of ``worker_python`` runs this file by its path, without packages: it starts in 15 ms.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main() -> int:
    """Return the exit status of the process that the server runs in place of this one."""
    arguments = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(os.environ["MINIKAFKA_FORK_SERVER"])
        except OSError:  # it does not run any more
            os.execv(sys.executable, [sys.executable, *arguments])
        request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
        socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(request)
        for each in (0, 1, 2):  # the JVM sees their ends when the other process closes them
            os.close(each)
        status = server.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    os._exit(main())
