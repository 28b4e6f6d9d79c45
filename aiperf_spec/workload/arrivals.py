"""When requests are due, under `--request-rate`."""

import random
from collections.abc import Iterator
from itertools import accumulate
from itertools import count as counter

from aiperf_spec.config.choices import ArrivalPattern


def arrivals(rate: float, pattern: ArrivalPattern, seed: int, count: int | None = None) -> Iterator[float]:
    """Yield the seconds after the start at which requests are due, `rate` a second on average.

    `constant` spaces them evenly, the first at once. `poisson` draws exponential gaps from the seed: the same seed
    gives the same schedule, whatever the server does. With a `count`, the schedule is a Poisson process given that so
    many requests fall into count / rate seconds: the rate that was asked for is the rate that is sent.
    """
    if pattern is ArrivalPattern.CONSTANT:
        return (number / rate for number in (counter() if count is None else range(count)))
    # A stream of its own: drawing prompts from the same seed must not shift the schedule.
    generator = random.Random(f"arrivals-{seed}")
    if count is None:
        return accumulate(generator.expovariate(rate) for _ in iter(int, 1))
    gaps = [generator.expovariate(1.0) for _ in range(count + 1)]
    scale = count / rate / sum(gaps)
    return accumulate(gap * scale for gap in gaps[:count])
