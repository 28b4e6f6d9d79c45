"""Watch for an engine of another version than its adapter was written against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aiperf_spec.adapters.description import EngineDescription, PayloadFields
from aiperf_spec.models.response import ParsedResponse

_LISTED = 4
"""Fields that a notice names: a server may send a new one with every response."""
_NAME_LIMIT = 60


@dataclass(slots=True)
class _Differences:
    unknown: dict[str, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    text: str = ""


@dataclass(slots=True)
class VersionWatch:
    """Compare what engines send with the fields that are known; each has one notice a run, which names every field."""

    _by_engine: dict[str, _Differences] = field(default_factory=dict)

    def compare_payloads(
        self, responses: Sequence[ParsedResponse], engines: Sequence[EngineDescription], notices: list[str]
    ) -> None:
        """Compare captured objects with the engine that is most like them, and put or renew that engine's notice."""
        candidates = [(engine, engine.payload) for engine in engines if engine.payload is not None]
        for response in responses:
            payload = response.spec_decode_stats
            if not isinstance(payload, dict) or not candidates:
                continue
            engine, fields = max(candidates, key=lambda candidate: candidate[1].shared_with(payload))
            known = fields.required | fields.optional
            if not fields.shared_with(payload) or (payload.keys() <= known and fields.required <= payload.keys()):
                continue
            unknown = (name for name in payload if name not in known)
            self._note(engine.name, fields, unknown, sorted(fields.required - payload.keys()), notices)

    def compare_timings(
        self, responses: Sequence[ParsedResponse], engines: Sequence[EngineDescription], notices: list[str]
    ) -> None:
        """Compare the objects with engines' own timing with the keys that are known there."""
        for response in responses:
            if response.engine_timings is None:
                continue
            for engine in engines:
                timing, fields = engine.timing, engine.payload
                if timing is None or fields is None:
                    continue
                sent = response.engine_timings.get(timing.path, {})
                if sent.keys() <= timing.known:
                    continue
                objects = (value for value in sent.values() if isinstance(value, dict))
                if sent.keys() & timing.known or any(fields.shared_with(value) for value in objects):
                    unknown = (".".join((*timing.path, name)) for name in sent if name not in timing.known)
                    self._note(engine.name, fields, unknown, (), notices)

    def _note(
        self, name: str, fields: PayloadFields, unknown: Iterable[str], missing: Iterable[str], notices: list[str]
    ) -> None:
        differences = self._by_engine.setdefault(name, _Differences())
        for names, found in ((differences.unknown, unknown), (differences.missing, missing)):
            for each in found:
                if len(names) <= _LISTED:
                    names[each[:_NAME_LIMIT]] = None
        text = _wording(name, fields.version, differences)
        if text == differences.text:
            return
        if differences.text in notices:
            notices[notices.index(differences.text)] = text
        else:
            notices.append(text)
        differences.text = text


def _wording(name: str, version: str, differences: _Differences) -> str:
    changes = []
    if differences.missing:
        changes.append(f"without {_list(differences.missing)}, so such requests have no record")
    if unknown := differences.unknown:
        changes.append(f"with {_list(unknown)}, which {'are' if len(unknown) > 1 else 'is'} ignored")
    return (
        f"{name} reports acceptance otherwise than in {version}, which this was written against: "
        f"{' and '.join(changes)}"
    )


def _list(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "")
