"""One caller in each pass of the loop."""

from __future__ import annotations

import asyncio

from aiperf_spec.load.event_loop import FairQueue


async def test_callers_pass_one_by_one_in_order() -> None:
    turnstile, passed, passes = FairQueue(), [], 0
    loop = asyncio.get_running_loop()

    def count() -> None:
        nonlocal passes
        passes += 1
        loop.call_soon(count)

    async def caller(name: int) -> None:
        await turnstile.turn()
        passed.append((name, passes))

    loop.call_soon(count)
    await asyncio.gather(*(caller(name) for name in range(20)))
    assert [name for name, _ in passed] == list(range(20))
    assert len({at for _, at in passed}) == 20


async def test_a_cancelled_caller_does_not_block_the_others() -> None:
    turnstile = FairQueue()
    await turnstile.turn()
    tasks = [asyncio.create_task(turnstile.turn()) for _ in range(3)]
    tasks[0].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1:] == [None, None]
    await asyncio.wait_for(turnstile.turn(), 60)
