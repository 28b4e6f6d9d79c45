"""Serve the simulated engine over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable
from dataclasses import asdict

import orjson
from aiohttp import web

from .call import Endpoint
from .config import FAULT_OUTCOMES, SimulatorConfig
from .counters import Counters
from .engines import Engine, RejectedError, make_engine
from .faults import fault_for, writer_for
from .ledger import Ledger, LedgerEntry
from .listener import Listener
from .writer import HEADERS

CHAT_PATH = "/v1/chat/completions"
MAX_BODY_BYTES = 64 * 1024 * 1024
SHUTDOWN_S = 0.2
MAX_OPEN_FILES = 8192


class Simulator:
    """Answer the requests of one simulated server."""

    def __init__(self, config: SimulatorConfig) -> None:
        self.config = config
        self.engine: Engine = make_engine(config)
        self.ledger = Ledger()
        self.counters = Counters(config)
        self.listener: Listener | None = None

    async def models(self, request: web.Request) -> web.Response:
        """Answer GET /v1/models."""
        return _json(self.engine.models())

    async def settings(self, request: web.Request) -> web.Response:
        """Answer GET on the page of the engine's settings."""
        settings = self.engine.settings(request.path)
        return await self.not_found(request) if settings is None else _json(settings)

    async def version(self, request: web.Request) -> web.Response:
        """Answer GET /version."""
        version = self.engine.version()
        return await self.not_found(request) if version is None else _json({"version": version})

    async def health(self, request: web.Request) -> web.Response:
        """Answer GET /health."""
        return web.Response(headers=HEADERS)

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer GET /metrics; TensorRT-LLM has statistics of its own there, and Prometheus' under another path."""
        if self.config.engine == "tensorrt_llm" and not request.path.startswith("/prometheus"):
            return _json([])
        self.counters.in_flight = self.ledger.in_flight
        headers = HEADERS | {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self.counters.text().encode(), headers=headers)

    async def show_ledger(self, request: web.Request) -> web.Response:
        """Answer GET /ledger with every entry, and the peak of requests in flight in a header."""
        response = _json([asdict(entry) for entry in self.ledger.entries])
        response.headers["X-Peak-In-Flight"] = str(self.ledger.peak_in_flight)
        return response

    async def reset_ledger(self, request: web.Request) -> web.Response:
        """Answer POST /ledger/reset."""
        self.ledger.reset()
        return _json([])

    async def not_found(self, request: web.Request) -> web.Response:
        """Answer any other path."""
        return _json({"detail": "Not Found"}, 404)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /v1/chat/completions and /v1/completions."""
        endpoint: Endpoint = "chat" if request.path == CHAT_PATH else "completions"
        started = asyncio.get_running_loop().time()
        entry = self.ledger.open(endpoint, request.headers.get("x-request-id"))
        try:
            return await self._answer(request, endpoint, entry, started)
        except RejectedError as rejection:
            entry.outcome, entry.status, entry.finished = "error", rejection.status, True
            return _json(rejection.payload, rejection.status)
        except ConnectionError:
            # The client has left: nothing is left to answer to.
            entry.finished = False
            return web.Response()
        finally:
            self.ledger.close()
            self.counters.count(entry)

    async def _answer(
        self, request: web.Request, endpoint: Endpoint, entry: LedgerEntry, started: float
    ) -> web.StreamResponse:
        try:
            body = orjson.loads(await request.read())
        except orjson.JSONDecodeError as problem:
            raise self.engine.malformed(endpoint, problem.pos, problem.msg) from None
        if not isinstance(body, dict):
            raise self.engine.refuse("Input should be a valid dictionary")
        call = self.engine.accept(body, endpoint, entry.sequence)
        entry.stream = call.stream
        first = call.generations[0]
        entry.category, entry.changed_at, entry.near_tie = first.category, first.changed_at, first.near_tie
        entry.prompt_tokens, entry.samples = call.prompt_tokens, call.n
        entry.record([generation.draw for generation in call.generations])
        entry.fault = fault_for(self.config, entry.sequence)
        if entry.fault is not None:
            entry.outcome = FAULT_OUTCOMES[entry.fault]
        writer = writer_for(entry.fault)(request, self.engine, call, entry, started, self.listener, self.ledger)
        return await writer.respond()


class RunningSimulator:
    """Be a server that runs in the current event loop; stop it, or use it as an async context manager."""

    def __init__(self, simulator: Simulator, runner: web.AppRunner, listener: Listener) -> None:
        simulator.listener = listener
        self._runner = runner
        self._listener = listener
        self.config = simulator.config
        self.ledger = simulator.ledger

    @property
    def port(self) -> int:
        """Return the port listened on."""
        return self._listener.port

    @property
    def url(self) -> str:
        """Return the address that a client on this machine reaches the server under."""
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.config.host, self.config.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def stop(self) -> None:
        """Stop listening, drop what is in flight and free the port."""
        await self._listener.close()
        await self._runner.cleanup()

    async def __aenter__(self) -> RunningSimulator:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


SIMULATOR = web.AppKey("simulator", Simulator)


def create_app(config: SimulatorConfig) -> web.Application:
    """Build the application; without a listener of ours `connection_refused` only hangs up."""
    simulator = Simulator(config)
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app[SIMULATOR] = simulator
    app.router.add_post(CHAT_PATH, simulator.generate)
    app.router.add_post("/v1/completions", simulator.generate)
    app.router.add_get("/v1/models", simulator.models)
    app.router.add_get("/health", simulator.health)
    app.router.add_get("/version", simulator.version)
    for path in simulator.engine.settings_paths:
        app.router.add_get(path, simulator.settings)
    app.router.add_get("/metrics", simulator.metrics)
    if config.engine == "tensorrt_llm":
        app.router.add_get("/prometheus/metrics", simulator.metrics)
    app.router.add_get("/ledger", simulator.show_ledger)
    app.router.add_post("/ledger/reset", simulator.reset_ledger)
    app.router.add_route("*", "/{path:.*}", simulator.not_found)
    return app


async def start(config: SimulatorConfig) -> RunningSimulator:
    """Start a server in the running event loop; raise OSError if its address cannot be had."""
    app = create_app(config)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S, handler_cancellation=True)
    await runner.setup()
    listener = Listener(runner, config.host, config.port)
    try:
        await listener.open()
    except OSError:
        await runner.cleanup()
        raise
    return RunningSimulator(app[SIMULATOR], runner, listener)


def run(
    config: SimulatorConfig,
    on_ready: Callable[[str], None],
    *,
    until: Callable[[asyncio.Event], None] = lambda ended: None,
) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` is given the URL once requests are answered.

    `until` is given the event that ends the server, for another way to end it.
    """
    _allow_many_connections()
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(config, on_ready, until))


async def _serve(
    config: SimulatorConfig,
    on_ready: Callable[[str], None],
    until: Callable[[asyncio.Event], None],
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Signals belong to the main thread; elsewhere only `until` ends the server.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, ended.set)
    async with await start(config) as server:
        until(ended)
        on_ready(server.url)
        await ended.wait()


def _allow_many_connections() -> None:
    # macOS allows 256 open files by default, fewer than the requests a profile may have in flight.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _json(payload: object, status: int = 200) -> web.Response:
    data = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return web.Response(status=status, body=data, headers=HEADERS | {"Content-Type": "application/json"})
