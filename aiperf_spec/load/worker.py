"""Send the conversations that the process of a run hands over: the program of each process of `WorkerProcesses`."""

import asyncio
import socket
import sys
import time

from aiperf_spec.adapters.registry import load_registry
from aiperf_spec.client.client import Client
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.load.event_loop import monitored_loop_lag, run_in_loop, running
from aiperf_spec.load.link import Link
from aiperf_spec.load.plan import PlannedRequest
from aiperf_spec.load.requester import Requester
from aiperf_spec.load.stop import Stop
from aiperf_spec.load.tokenizer import load_counter

BEAT_SECONDS = 0.5
"""How often a worker says that it is alive, and how late its event loop was."""


async def _serve(end: socket.socket) -> None:
    link, stop = await Link.over(end), Stop()
    messages = link.messages()
    config, model, id_starts, looks_at_answers = await anext(messages)
    server, registry = split_endpoint(config.url), load_registry()
    counter = None if config.tokenizer is None else load_counter(config.tokenizer)
    conversations: dict[int, asyncio.Task[bool]] = {}

    def begin(number: int, first: PlannedRequest, end_ns: int | None) -> None:
        work = requester.converse(first, lambda record: link.send("record", number, record), stop, end_ns)
        conversations[number] = task = group.create_task(work)
        task.add_done_callback(lambda task: ended(number, task))

    def ended(number: int, task: asyncio.Task[bool]) -> None:
        del conversations[number]
        # Mostly the last record says it.
        if task.cancelled() or (task.exception() is None and not task.result()):
            link.send("ended", number, None)

    def tell() -> None:
        link.send("beat", lags_ns.tobytes(), registry.warnings)
        del lags_ns[:]

    async def beat() -> None:
        while True:
            tell()
            await asyncio.sleep(BEAT_SECONDS)

    async with Client(config, server) as client, monitored_loop_lag(time.perf_counter_ns) as lags_ns:
        redactor = Redactor(config, server)
        requester = Requester(config, model, client, registry, redactor, counter, id_starts, looks_at_answers)
        async with running(beat()), asyncio.TaskGroup() as group:
            async for number, first, end_ns in messages:
                if first is not None:
                    begin(number, first, end_ns)
                elif number in conversations:
                    conversations[number].cancel()
            # The run has ended. Where its process is gone, requests may be under way still.
            for task in conversations.values():
                task.cancel()
        tell()
    await link.close()


if __name__ == "__main__":
    run_in_loop(_serve(socket.socket(fileno=int(sys.argv[1]))))
