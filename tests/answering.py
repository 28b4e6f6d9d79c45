"""A server that answers what a test tells it to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OK = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


@dataclass
class Answer:
    """One answer: a body (JSON unless bytes), a status, headers."""

    body: Any = field(default_factory=lambda: OK)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Answering:
    """Where the server is, and what it was asked: (method, path, headers, body)."""

    url: str
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)


@contextmanager
def in_a_thread(server: ThreadingHTTPServer) -> Iterator[None]:
    """Let the server serve until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def answering(
    post: Answer | Callable[[dict[str, str]], Answer], models: Any = None, tls: ssl.SSLContext | None = None
) -> Iterator[Answering]:
    """Serve `post` to every POST and `models` to every GET, until the block ends."""
    state = Answering("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            state.asked.append(("GET", self.path, dict(self.headers), None))
            listed = models if models is not None else {"object": "list", "data": []}
            self.answer(listed if isinstance(listed, Answer) else Answer(listed))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.asked.append(("POST", self.path, dict(self.headers), body))
            self.answer(post if isinstance(post, Answer) else post(dict(self.headers)))

        def answer(self, answer: Answer) -> None:
            data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Keep quiet about a client that refuses a certificate."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    with in_a_thread(server):
        yield state
