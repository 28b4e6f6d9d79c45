"""Watch for an engine of another version than its adapter was written against."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aiperf_spec.adapters.description import EngineDescription, PayloadFields
from aiperf_spec.models.response import ParsedResponse

_LISTED = 4
"""Fields that a notice names: a server may send a new one with every response."""
_NAME_LIMIT = 60


@dataclass(slots=True)
class _Differences:
    version: str
    unknown: dict[str, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class VersionWatch:
    """Compare what engines send with the fields that are known of them."""

    _by_engine: dict[str, _Differences] = field(default_factory=dict)

    def compare_payloads(self, responses: Sequence[ParsedResponse], engines: Sequence[EngineDescription]) -> None:
        """Compare captured objects with the known fields of the engine that is most like them."""
        candidates = [(engine, engine.payload) for engine in engines if engine.payload is not None]
        for response in responses:
            payload = response.spec_decode_stats
            if not isinstance(payload, dict) or not candidates:
                continue
            engine, fields = max(candidates, key=lambda candidate: candidate[1].shared_with(payload))
            if fields.shared_with(payload):
                known = fields.required | fields.optional
                unknown = (name for name in payload if name not in known)
                self._note(engine.name, fields, unknown, sorted(fields.required - payload.keys()))

    def compare_timings(self, responses: Sequence[ParsedResponse], engines: Sequence[EngineDescription]) -> None:
        """Compare the objects with engines' own timing with the keys that are known there."""
        for response in responses:
            if response.engine_timings is None:
                continue
            for engine in engines:
                timing, fields = engine.timing, engine.payload
                if timing is None or fields is None or timing.path not in response.engine_timings:
                    continue
                sent, known = response.engine_timings[timing.path], timing.known
                objects = (value for value in sent.values() if isinstance(value, dict))
                if sent.keys() & known or any(fields.shared_with(value) for value in objects):
                    unknown = (".".join((*timing.path, name)) for name in sent if name not in known)
                    self._note(engine.name, fields, unknown)

    def _note(self, engine: str, fields: PayloadFields, unknown: Iterable[str], missing: Iterable[str] = ()) -> None:
        differences = self._by_engine.setdefault(engine, _Differences(fields.version))
        for names, found in ((differences.unknown, unknown), (differences.missing, missing)):
            for name in found:
                if len(names) <= _LISTED:
                    names[name[:_NAME_LIMIT]] = None

    @property
    def notices(self) -> list[str]:
        """Return a text for each engine that differs, which names every field."""
        return [_wording(name, each) for name, each in self._by_engine.items() if each.unknown or each.missing]


def _wording(engine: str, differences: _Differences) -> str:
    changes = []
    if differences.missing:
        changes.append(f"without {_list(differences.missing)}, so such requests have no record")
    if unknown := differences.unknown:
        changes.append(f"with {_list(unknown)}, which {'are' if len(unknown) > 1 else 'is'} ignored")
    written = f"reports acceptance otherwise than in {differences.version}, which this was written against"
    return f"{engine} {written}: {' and '.join(changes)}"


def _list(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "")
