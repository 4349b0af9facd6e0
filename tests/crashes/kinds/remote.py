"""An MCP server over HTTP whose one tool acts on the outside world, and that knows nothing of the life of its clients.

The process that is started prints its port and holds it; a child serves, and when somebody kills it another one does.
Both end with standard input. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])
from crashes.kinds.office import answer
from crashes.outside import Outside

OUTSIDE, PROMISE = Outside(Path(sys.argv[2])), sys.argv[3]


def host() -> int:
    """The client, which over HTTP nobody can know: it has left its number."""
    return int(OUTSIDE.path.with_name("host").read_text())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self._give(202, b"")
            return
        try:
            reply = answer(message, OUTSIDE, PROMISE, host)
        except ConnectionResetError:  # the answer is lost
            self.close_connection = True
            return
        self._give(200, json.dumps(reply).encode())

    def do_GET(self) -> None:
        self._give(405, b"")

    def do_DELETE(self) -> None:
        self._give(200, b"")

    def _give(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # the client has died
            self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        pass


def serve(listener: socket.socket) -> None:
    server = Server(listener.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    child = 0

    def end() -> None:
        sys.stdin.read()
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os._exit(0)

    while True:
        child = os.fork()
        if child == 0:
            serve(listener)
        if not threading.active_count() > 1:
            threading.Thread(target=end, daemon=True).start()
        os.waitpid(child, 0)


main()
