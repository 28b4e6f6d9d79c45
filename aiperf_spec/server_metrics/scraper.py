"""Read the metrics of the servers while a run is measured: before the first profiled request, every second, after it.

Reading is a task of its own and no request waits for it. Only between the phases, where nothing is in flight, and
after the last request is it waited for: 2 s at the most.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from aiperf_spec.client.client import Client
from aiperf_spec.config.redaction import Redactor, is_secret_header
from aiperf_spec.config.server_url import Server
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import Notice, NoticeKind
from aiperf_spec.models.server_metrics import EndpointScrapes, ServerMetrics
from aiperf_spec.models.units import NS_PER_MS
from aiperf_spec.server_metrics.deltas import metric_deltas
from aiperf_spec.server_metrics.endpoints import MetricsEndpoint, metrics_endpoints
from aiperf_spec.server_metrics.snapshots import Snapshots
from aiperf_spec.server_metrics.text import NotPrometheusError

INTERVAL_SECONDS = 1.0
PATIENCE_SECONDS = 2.0
"""How long the run waits, before its first profiled request and after its last, for counters that stand still."""
HURRIED_SECONDS = 0.8
"""The same for a run that was stopped, whose user waits."""
_STILL_SECONDS = 0.2
"""Counters that say the same after as long stand still: engines count at the end of a step."""


class _EndpointScraper:
    """Read one endpoint into a snapshots."""

    def __init__(self, target: MetricsEndpoint, client: Client, clock: Callable[[], int]) -> None:
        self.target = target
        self.snapshots = Snapshots()
        self.begun = False
        self.settled = True
        self.fetches = 0
        self.failed = 0
        self.problem = ""
        self._client = client
        self._clock = clock
        self._url = target.urls[0]
        self._spent_ns = 0

    async def begin(self, *, settle: bool) -> None:
        """Take the first figures; with `settle` wait until the counters stand still."""
        problems: list[str] = []
        for url in self.target.urls:
            self._url = url
            if await self._read(first=True):
                self.begun = True
                # The other paths are where an engine of another kind has them.
                self.fetches, self.failed = 1, 0
                break
            problems.append(self.problem)
        else:
            self.problem = problems[0]
        if self.begun and settle:
            await self._settle(first=True)

    async def end(self) -> None:
        """Take the last figures, once the counters stand still."""
        self.problem = ""
        read = await self._read()
        while not read:
            await asyncio.sleep(_STILL_SECONDS)
            read = await self._read()
        await self._settle()

    async def watch(self) -> None:
        """Read every second."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self._read()

    async def _settle(self, *, first: bool = False) -> None:
        self.settled = False
        counters = self.snapshots.counters()
        while counters:
            await asyncio.sleep(_STILL_SECONDS)
            if await self._read(first=first):
                before, counters = counters, self.snapshots.counters()
                if counters == before:
                    break
        self.settled = True

    async def _read(self, *, first: bool = False) -> bool:
        start_ns = self._clock()
        page = await self._client.get(self._url)
        at_ns = self._clock()
        self.fetches += 1
        if page is None:
            self.problem = "no answer"
        elif not page.is_success:
            location = page.headers.get("location")
            self.problem = f"HTTP {page.status_code}" + (f" to {location}" if location else "")
        else:
            take = self.snapshots.begin if first else self.snapshots.add
            try:
                take(at_ns, page.content.decode("utf-8", "replace"))
                # Texts are parsed after the run, and a module that is loaded then may find no descriptor left.
                import prometheus_client.parser  # noqa: F401

                self._spent_ns += at_ns - start_ns
                return True
            except NotPrometheusError:
                self.problem = "what it answers is not in Prometheus' format"
        self.failed += 1
        return False

    def scrapes(self, wall_offset_ns: int) -> EndpointScrapes:
        """Return how reading went."""
        return EndpointScrapes(
            url=self.target.shown if self._url == self.target.urls[0] else self._url.partition("?")[0],
            fetches=self.fetches,
            failed_fetches=self.failed,
            first_ns=self.snapshots.first_ns + wall_offset_ns,
            last_ns=self.snapshots.last_ns + wall_offset_ns,
            latency_ms=self._spent_ns / max(self.fetches - self.failed, 1) / NS_PER_MS,
            settled=self.settled,
        )


class MetricsScraper:
    """Read the servers' metrics of one run; an asynchronous context manager. `notices` says what could not be read.

    `client` is the run's, used where the metrics are on the run's own server. Other servers get a client of their own
    with the same certificates and proxies, but without the key and the headers that hold a secret: those were given for
    `--url`. What a server says is written without the secrets that `redactor` knows.
    """

    def __init__(
        self,
        config: ProfileConfig,
        server: Server,
        client: Client,
        redactor: Redactor,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._redactor = redactor
        self.notices: list[Notice] = []
        self._readers: list[_EndpointScraper] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        if not config.server_metrics:
            return
        for target in metrics_endpoints(config, server):
            chosen = client
            if not _shares_secrets(target.server, server):
                headers = tuple(pair for pair in config.headers if not is_secret_header(*pair))
                own = config.model_copy(update={"api_key": None, "headers": headers})
                chosen = Client(own, target.server, clock=clock)
                self._stack.push_async_exit(chosen)
            self._readers.append(_EndpointScraper(target, chosen, clock))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._halt()
        await self._stack.aclose()

    async def begin(self, stopped: Callable[[], Awaitable[None]], *, settle: bool) -> None:
        """Take the figures from which counters grow, then go on reading; returns early once the run is stopped.

        With `settle`, after a warm-up, counters have to stand still first, lest its last steps count as profiled.
        """
        readings = [reader.begin(settle=settle) for reader in self._readers]
        if not readings:
            return
        in_time = await _within(PATIENCE_SECONDS, asyncio.gather(*readings), stopped)
        # A run that was stopped by now sends nothing more, and has no use for a notice.
        failed = [reader for reader in self._readers if not reader.begun] if in_time else []
        for reader in failed:
            values = {
                "url": reader.target.shown,
                "reason": self._redactor.cut_text(reader.problem) or f"no answer in {PATIENCE_SECONDS:g} s",
            }
            self.notices.append(Notice(NoticeKind.NO_SERVER_METRICS, values))
        self._readers = [reader for reader in self._readers if reader.begun]
        self._tasks = [asyncio.create_task(reader.watch()) for reader in self._readers]

    async def end(self, start_ns: int, end_ns: int, wall_offset_ns: int, *, hurry: bool) -> ServerMetrics | None:
        """Take the last figures and return those of the profiled interval (monotonic ns); None where there are none."""
        await self._halt()
        if not self._readers:
            return None
        begun = [(reader.settled, len(reader.snapshots.reads)) for reader in self._readers]
        readings = asyncio.gather(*(reader.end() for reader in self._readers))
        await _within(HURRIED_SECONDS if hurry else PATIENCE_SECONDS, readings, None)
        complete: list[_EndpointScraper] = []
        values: dict[str, str | int]
        for reader, (settled, reads) in zip(self._readers, begun, strict=True):
            reader.settled &= settled
            if len(reader.snapshots.reads) == reads or not _finished(reader):
                values = {"url": reader.target.shown, "reason": self._redactor.cut_text(reader.problem) or "no answer"}
                self.notices.append(Notice(NoticeKind.SERVER_METRICS_LOST, values))
                continue
            if reader.failed:
                values = {"url": reader.target.shown, "failed": reader.failed, "of": reader.fetches}
                self.notices.append(Notice(NoticeKind.SERVER_METRICS_GAPS, values))
            complete.append(reader)
        if not complete:
            return None
        endpoints = [reader.scrapes(wall_offset_ns) for reader in complete]
        _number(endpoints)
        snapshots_by_url = {scrapes.url: reader.snapshots for scrapes, reader in zip(endpoints, complete, strict=True)}
        metrics = metric_deltas(snapshots_by_url, start_ns, end_ns)
        for metric in metrics.values():
            metric.description = self._redactor.text(metric.description)
            for series in metric.series:
                series.labels = self._redactor.value(series.labels)
        return ServerMetrics(endpoints, start_ns + wall_offset_ns, end_ns + wall_offset_ns, metrics)

    async def _halt(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


def _number(endpoints: list[EndpointScrapes]) -> None:
    # Two that differ in their queries alone are shown alike.
    seen: dict[str, int] = {}
    for endpoint in endpoints:
        seen[endpoint.url] = times = seen.get(endpoint.url, 0) + 1
        if times > 1:
            endpoint.url += f"#{times}"


def _finished(reader: _EndpointScraper) -> bool:
    try:
        reader.snapshots.finish()
    except NotPrometheusError as error:
        reader.problem = f"what it answers is not in Prometheus' format ({error})"
        return False
    return True


def _shares_secrets(one: Server, other: Server) -> bool:
    # Credentials in a URL of metrics are for that endpoint, and go before the run's own.
    return one.origin == other.origin and one.credentials in (None, other.credentials)


async def _within(
    seconds: float, work: asyncio.Future[list[None]], stopped: Callable[[], Awaitable[None]] | None
) -> bool:
    """Wait for the work, but no longer than this, nor than until the run is stopped; give it up then.

    Returns whether it was not stopped.
    """
    waiting: set[asyncio.Future[Any]] = {work}
    stopper = None if stopped is None else asyncio.ensure_future(stopped())
    if stopper is not None:
        waiting.add(stopper)
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        in_time = stopper is None or not stopper.done()
    finally:
        for future in waiting:
            future.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return in_time
