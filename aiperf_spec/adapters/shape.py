"""What an engine's object looked like in the version that its adapter was written against, and how it differs now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiperf_spec.models.response import ParsedResponse

_LISTED = 4
"""Fields that a notice names: a server may send a new one with every response."""
_NAME_LIMIT = 60


@dataclass(slots=True, frozen=True)
class Shape:
    """The fields of an engine's object: `required` are those that its adapter reads and the engine always sends.

    `version` names, as text, what the adapter was written against. `siblings` are the known fields beside the object
    in `metrics`, for the engine that puts it there.
    """

    engine: str
    version: str
    required: frozenset[str]
    optional: frozenset[str] = frozenset()
    siblings: frozenset[str] = frozenset()

    def likeness(self, payload: dict[str, Any]) -> int:
        """Return how many fields the payload shares with this shape; 0 below half of the required ones."""
        if len(self.required & payload.keys()) * 2 < len(self.required):
            return 0
        return len((self.required | self.optional) & payload.keys())


@dataclass(slots=True)
class _Skew:
    unknown: dict[str, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    text: str = ""


@dataclass(slots=True)
class SkewWatch:
    """Compare what engines send with their shapes; each engine has one notice a run, which names every field."""

    _skews: dict[str, _Skew] = field(default_factory=dict)

    def compare(self, responses: Sequence[ParsedResponse], shapes: Sequence[Shape], notices: list[str]) -> None:
        """Compare captured objects with the shape that is most like them, and put or renew the engine's notice."""
        for response in responses:
            payload = response.spec_decode_stats
            if not isinstance(payload, dict):
                continue
            likest = max(shapes, key=lambda shape: shape.likeness(payload), default=None)
            if likest is None or not likest.likeness(payload):
                continue
            known = likest.required | likest.optional
            if payload.keys() <= known and likest.required <= payload.keys():
                continue
            unknown = (name for name in payload if name not in known)
            self._note(likest, unknown, sorted(likest.required - payload.keys()), notices)

    def compare_siblings(
        self, responses: Sequence[ParsedResponse], shapes: Sequence[Shape], notices: list[str]
    ) -> None:
        """Compare the fields of `metrics` with those that its engine is known to put there."""
        for response in responses:
            metrics = response.metrics
            if metrics is None:
                continue
            for shape in shapes:
                if not shape.siblings or metrics.keys() <= shape.siblings:
                    continue
                objects = (value for value in metrics.values() if isinstance(value, dict))
                if metrics.keys() & shape.siblings or any(shape.likeness(value) for value in objects):
                    unknown = (f"metrics.{name}" for name in metrics if name not in shape.siblings)
                    self._note(shape, unknown, (), notices)

    def _note(self, shape: Shape, unknown: Iterable[str], missing: Iterable[str], notices: list[str]) -> None:
        skew = self._skews.setdefault(shape.engine, _Skew())
        for names, found in ((skew.unknown, unknown), (skew.missing, missing)):
            for name in found:
                if len(names) <= _LISTED:
                    names[name[:_NAME_LIMIT]] = None
        text = _wording(shape, skew)
        if text == skew.text:
            return
        if skew.text in notices:
            notices[notices.index(skew.text)] = text
        else:
            notices.append(text)
        skew.text = text


def _wording(shape: Shape, skew: _Skew) -> str:
    changes = []
    if skew.missing:
        changes.append(f"without {_list(skew.missing)}, so such requests have no record")
    if skew.unknown:
        changes.append(f"with {_list(skew.unknown)}, which {'are' if len(skew.unknown) > 1 else 'is'} ignored")
    return (
        f"{shape.engine} reports acceptance otherwise than in {shape.version}, which this was written against: "
        f"{' and '.join(changes)}"
    )


def _list(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "")
