"""Time the reader against a plain parse of every chunk: .venv/bin/python tests/bench/reader_bench.py [--rounds 9].

Chunks are vLLM's of a chat, with and without logprobs, in responses of 20 and of 100, one a read and all in one. Both
ways take turns; a row is the median of the CPU us a chunk, and the median of the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import orjson

from aiperf_spec.adapters.registry import load_registry
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.response_reader import PatternSearch, ResponseReader
from aiperf_spec.wire.sse import SSEDecoder

PATHS = load_registry().payload_paths
RESPONSES = 60


def chunk(number: int, *, logprobs: bool) -> bytes:
    text = f" tok{number}"
    token = {"token": text, "logprob": -0.1 * number, "bytes": list(text.encode())}
    shown = {"content": [{**token, "top_logprobs": [token]}]} if logprobs else None
    choice = {"index": 0, "delta": {"content": text}, "logprobs": shown, "finish_reason": None}
    head = {"id": "chatcmpl-1234567890abcdef", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
    return b"data: " + orjson.dumps({**head, "choices": [choice]}) + b"\n\n"


def read(pieces: list[bytes], search: PatternSearch) -> None:
    reader = ResponseReader(PATHS, search=search)
    for now, piece in enumerate(pieces):
        reader.feed(piece, now)
    reader.finish(len(pieces))
    assert reader.responses


def parse(pieces: list[bytes], _: PatternSearch) -> None:
    decoder = SSEDecoder()
    assert [parse_event(event, now, PATHS) for now, piece in enumerate(pieces) for event in decoder.decode(piece)]


def microseconds(
    way: Callable[[list[bytes], PatternSearch], None], pieces: list[bytes], search: PatternSearch
) -> float:
    begun = time.process_time_ns()
    for _ in range(RESPONSES):
        way(pieces, search)
    return (time.process_time_ns() - begun) / RESPONSES / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print("| chunks | reader us | plain parse us | ratio |\n| --- | --- | --- | --- |")
    for logprobs in (False, True):
        for chunks in (20, 100):
            alone = [chunk(number, logprobs=logprobs) for number in range(chunks)]
            for name, pieces in (("one a read", alone), ("one read", [b"".join(alone)])):
                search, pairs = PatternSearch(), []
                for turn in range(rounds):
                    ways = (read, parse) if turn % 2 else (parse, read)
                    taken = {way: microseconds(way, pieces, search) / chunks for way in ways}
                    pairs.append((taken[read], taken[parse]))
                ours, plain = (statistics.median(column) for column in zip(*pairs, strict=True))
                ratio = statistics.median(one / other for one, other in pairs)
                label = f"{chunks} {'with logprobs' if logprobs else 'of text'}, {name}"
                print(f"| {label} | {ours:.2f} | {plain:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
