"""Read the public cases: a server's behaviour that somebody reported, and the outcome that is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """One line of `cases.jsonl`."""

    id: str
    script: dict[str, Any]
    """How the server behaves: what `stub.serving` takes."""
    expect: dict[str, Any]

    @property
    def request(self) -> dict[str, Any]:
        """What the client is to ask: endpoint, stream, requests, concurrency."""
        asked: dict[str, Any] = self.script["request"]
        return asked

    def expected(self, index: int) -> dict[str, Any]:
        """Return what is expected of one request."""
        per_response: list[dict[str, Any]] | None = self.expect.get("per_response")
        return self.expect if per_response is None else per_response[index]


def _read() -> Iterator[Case]:
    # Split on LF alone: the cases hold raw U+2028.
    for line in (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").split("\n"):
        if line:
            row = json.loads(line)
            yield Case(row["id"], row["stub"], row["expect"])


CASES = {case.id: case for case in _read()}
