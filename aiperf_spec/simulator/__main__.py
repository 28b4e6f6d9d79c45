"""Serve a simulated engine for a parent process: print the URL, end when the input ends."""

import asyncio
import sys
import threading

from .config import SimulatorConfig
from .server import run


def main(arguments: list[str]) -> int:
    """Serve what a JSON configuration, the only argument, describes; return the exit status."""
    if len(arguments) != 1:
        print('usage: python -m aiperf_spec.simulator \'{"engine": "vllm"}\'', file=sys.stderr)  # noqa: T201
        return 2
    try:
        config = SimulatorConfig.from_json(arguments[0])
        run(config, lambda url: print(url, flush=True), until=_end_with_input)  # noqa: T201
    except (ValueError, TypeError, OSError) as problem:
        print(f"cannot start the simulator: {problem}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _end_with_input(ended: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
