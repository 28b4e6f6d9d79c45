from __future__ import annotations

import json
import sys
from asyncio import CancelledError
from copy import deepcopy
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_spec.adapters import registry as module
from aiperf_spec.adapters.description import EngineDescription
from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.adapters.registry import (
    BUILT_IN,
    ENTRY_POINT_GROUP,
    Adapter,
    AdapterRegistry,
    load_registry,
)
from aiperf_spec.errors import PluginError
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEEvent
from tests.identities import broken_identities

Verdict = tuple[SpecDecodeAcceptanceRecord | DraftTotals | None, DropReason | None]

# Steps, in order: accepted 2 of 3, 0 of 3, 1 of 2, 0 of 2. Every engine tells the same story of them.
PAYLOADS: dict[str, dict[str, Any]] = {
    "vllm": {
        "mean_acceptance_length": 1.75,
        "draft_acceptance_rate": 0.3,
        "acceptance_histogram": [2, 1, 1, 0],
        "num_spec_steps": 4,
        "num_accepted_draft_tokens": 3,
        "num_draft_tokens": 10,
        "num_spec_tokens": 3,
        "per_step_accepted": [2, 0, 1, 0],
        "per_step_drafted": [3, 3, 2, 2],
    },
    "tensorrt_llm": {
        "acceptance_rate": 0.3,
        "total_accepted_draft_tokens": 3,
        "total_draft_tokens": 10,
        "num_spec_steps": 4,
        "acceptance_histogram": [2, 1, 1, 0],
        "num_spec_tokens": 3,
    },
    "sglang": {
        "spec_accept_rate": 0.3,
        "spec_accept_length": 2.0,
        "spec_num_correct_drafts": 3,
        "spec_num_proposed_drafts": 10,
        "spec_verify_ct": 4,
        "spec_correct_drafts_histogram": [2, 1, 1],
    },
}
# What each engine would have said of the first two steps, and of two steps of another sequence.
EARLIER: dict[str, dict[str, Any]] = {
    "vllm": {
        **PAYLOADS["vllm"],
        "mean_acceptance_length": 2.0,
        "draft_acceptance_rate": 2 / 6,
        "acceptance_histogram": [1, 0, 1, 0],
        "num_spec_steps": 2,
        "num_accepted_draft_tokens": 2,
        "num_draft_tokens": 6,
        "per_step_accepted": [2, 0],
        "per_step_drafted": [3, 3],
    },
    "tensorrt_llm": {
        **PAYLOADS["tensorrt_llm"],
        "acceptance_rate": 2 / 6,
        "total_accepted_draft_tokens": 2,
        "total_draft_tokens": 6,
        "num_spec_steps": 2,
        "acceptance_histogram": [1, 0, 1, 0],
    },
    "sglang": {
        **PAYLOADS["sglang"],
        "spec_num_correct_drafts": 2,
        "spec_num_proposed_drafts": 6,
        "spec_verify_ct": 2,
        "spec_correct_drafts_histogram": [1, 0, 1],
    },
}
FOREIGN: dict[str, dict[str, Any]] = {
    "vllm": {
        **EARLIER["vllm"],
        "mean_acceptance_length": 4.0,
        "draft_acceptance_rate": 1.0,
        "acceptance_histogram": [0, 0, 0, 2],
        "num_accepted_draft_tokens": 6,
        "per_step_accepted": [3, 3],
    },
    "tensorrt_llm": {
        **EARLIER["tensorrt_llm"],
        "acceptance_rate": 1.0,
        "total_accepted_draft_tokens": 6,
        "acceptance_histogram": [0, 0, 0, 2],
    },
    "sglang": {
        **EARLIER["sglang"],
        "spec_num_correct_drafts": 6,
        "spec_correct_drafts_histogram": [0, 0, 0, 2],
    },
}
ENGINES = [*PAYLOADS]
TOKEN = ParsedResponse(1, text="x", is_content=True, choice_indices=(0,))


def response(stats: Any, *indices: int) -> ParsedResponse:
    return ParsedResponse(2, spec_decode_stats=stats, choice_indices=indices or (0,))


def read(*stats: Any, several: bool = False, adapters: tuple[Adapter, ...] = BUILT_IN) -> tuple[Verdict, list[str]]:
    """Read one request whose events carried these objects; return the verdict and the warnings."""
    registry = AdapterRegistry(adapters)
    verdict = registry.read([TOKEN, *map(response, stats)], several_sequences=several)
    return verdict, registry.warnings


def dropped(reason: DropReason) -> tuple[Verdict, list[str]]:
    return (None, reason), []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_yields_the_same_record(engine: str) -> None:
    (record, reason), warnings = read(PAYLOADS[engine])
    assert isinstance(record, SpecDecodeAcceptanceRecord)
    assert (reason, warnings) == (None, [])
    assert record.engine == engine
    assert record.mean_acceptance_length == 1.75
    assert record.draft_acceptance_rate == 0.3
    assert record.acceptance_histogram == {0: 2, 1: 1, 2: 1}
    assert (record.num_accepted_draft_tokens, record.num_draft_tokens, record.num_spec_steps) == (3, 10, 4)
    assert broken_identities(record.model_dump()) == set()


class TestDropReasons:
    @pytest.mark.parametrize("stats", [[], [None], [{}], [[]], [None, {}]])
    def test_absent(self, stats: list[Any]) -> None:
        assert read(*stats) == dropped(DropReason.ABSENT)

    def test_absent_without_any_response(self) -> None:
        assert AdapterRegistry(BUILT_IN).read([], several_sequences=False) == (None, DropReason.ABSENT)

    def test_zero_step(self) -> None:
        zero = {
            **PAYLOADS["vllm"],
            "mean_acceptance_length": 1.0,
            "draft_acceptance_rate": 0.0,
            "acceptance_histogram": [0, 0, 0, 0],
            "num_spec_steps": 0,
            "num_accepted_draft_tokens": 0,
            "num_draft_tokens": 0,
            "per_step_accepted": None,
            "per_step_drafted": None,
        }
        assert read(zero) == dropped(DropReason.ZERO_STEP)
        empty = {**zero, "per_step_accepted": [], "per_step_drafted": []}
        assert read(empty) == dropped(DropReason.ZERO_STEP)

    @pytest.mark.parametrize(
        ("engine", "steps", "histogram", "counts"),
        [
            (
                "tensorrt_llm",
                "num_spec_steps",
                "acceptance_histogram",
                ("total_accepted_draft_tokens", "total_draft_tokens"),
            ),
            (
                "sglang",
                "spec_verify_ct",
                "spec_correct_drafts_histogram",
                ("spec_num_correct_drafts", "spec_num_proposed_drafts"),
            ),
        ],
    )
    @pytest.mark.parametrize("dense", [[0, 0, 0, 0], [4, 0, 0, 0], []])
    def test_zero_steps_of_the_others_are_malformed(
        self, engine: str, steps: str, histogram: str, counts: tuple[str, str], dense: list[int]
    ) -> None:
        payload = {**PAYLOADS[engine], steps: 0, histogram: dense, **dict.fromkeys(counts, 0)}
        assert read(payload) == dropped(DropReason.MALFORMED)

    @pytest.mark.parametrize("engine", ENGINES)
    def test_multi_sequence_because_it_was_asked_for(self, engine: str) -> None:
        assert read(PAYLOADS[engine], several=True) == dropped(DropReason.MULTI_SEQUENCE)
        assert read(several=True) == dropped(DropReason.MULTI_SEQUENCE)

    @pytest.mark.parametrize("engine", ENGINES)
    def test_multi_sequence_because_several_choices_came(self, engine: str) -> None:
        registry = AdapterRegistry(BUILT_IN)
        expected = (None, DropReason.MULTI_SEQUENCE)
        assert registry.read([TOKEN, response(PAYLOADS[engine], 1)], several_sequences=False) == expected
        assert registry.read([TOKEN, response(PAYLOADS[engine], 0, 1)], several_sequences=False) == expected
        assert registry.read([response(None, 0), response(None, 3)], several_sequences=False) == expected

    @pytest.mark.parametrize("engine", ENGINES)
    def test_multi_sequence_because_of_a_list(self, engine: str) -> None:
        payload = PAYLOADS[engine]
        for stats in ([payload], [payload, payload], [payload, "rubbish"], ["rubbish"]):
            assert read(stats) == dropped(DropReason.MULTI_SEQUENCE)
        assert read(payload, [payload]) == dropped(DropReason.MULTI_SEQUENCE)

    @pytest.mark.parametrize("engine", ENGINES)
    def test_multi_sequence_because_two_payloads_contradict(self, engine: str) -> None:
        assert read(FOREIGN[engine], PAYLOADS[engine]) == dropped(DropReason.MULTI_SEQUENCE)
        assert read(EARLIER[engine], FOREIGN[engine], PAYLOADS[engine]) == dropped(DropReason.MULTI_SEQUENCE)
        assert read(PAYLOADS[engine], EARLIER[engine]) == dropped(DropReason.MULTI_SEQUENCE)

    @pytest.mark.parametrize("stats", ["text", 3, True, {"x": 1}, {"acceptance_histogram": [1]}])
    def test_unrecognized(self, stats: Any) -> None:
        assert read(stats) == dropped(DropReason.UNRECOGNIZED)

    @pytest.mark.parametrize("engine", ENGINES)
    def test_malformed(self, engine: str) -> None:
        for key, value in PAYLOADS[engine].items():
            if key.startswith("spec_accept_"):
                continue  # unused
            assert read({**PAYLOADS[engine], key: "x"}) == dropped(DropReason.MALFORMED), key
            if isinstance(value, int):
                assert read({**PAYLOADS[engine], key: -value}) == dropped(DropReason.MALFORMED), key

    @pytest.mark.parametrize("first", ENGINES)
    @pytest.mark.parametrize("second", ENGINES)
    def test_ambiguous(self, first: str, second: str) -> None:
        if first == second:
            return
        (record, reason), warnings = read({**PAYLOADS[first], **PAYLOADS[second]})
        assert (record, reason) == (None, DropReason.AMBIGUOUS)
        assert len(warnings) == 1
        assert first in warnings[0]
        assert second in warnings[0]
        assert read(PAYLOADS[first], PAYLOADS[second])[0] == (None, DropReason.AMBIGUOUS)


class TestRepeatedPayloads:
    @pytest.mark.parametrize("engine", ENGINES)
    def test_the_same_object_twice_is_one_record(self, engine: str) -> None:
        assert read(PAYLOADS[engine], PAYLOADS[engine]) == read(PAYLOADS[engine])
        assert read(PAYLOADS[engine], {}, None, PAYLOADS[engine]) == read(PAYLOADS[engine])

    @pytest.mark.parametrize("engine", ENGINES)
    def test_of_running_figures_the_last_counts(self, engine: str) -> None:
        assert read(EARLIER[engine], EARLIER[engine], PAYLOADS[engine]) == read(PAYLOADS[engine])

    @pytest.mark.parametrize("engine", ENGINES)
    def test_an_object_that_is_no_payload_does_not_matter(self, engine: str) -> None:
        assert read({"note": 1}, PAYLOADS[engine], {"note": 2}) == read(PAYLOADS[engine])

    @pytest.mark.parametrize("engine", ENGINES)
    def test_an_earlier_payload_that_is_malformed_does_not_matter(self, engine: str) -> None:
        broken = dict.fromkeys(PAYLOADS[engine], "x")
        assert read(broken, PAYLOADS[engine]) == read(PAYLOADS[engine])
        assert read(PAYLOADS[engine], broken) == dropped(DropReason.MALFORMED)

    @pytest.mark.parametrize("depth", [5, 900, 1020])
    @pytest.mark.parametrize("engine", ENGINES)
    def test_objects_nested_deeply_are_no_danger(self, engine: str, depth: int) -> None:
        deep = json.dumps({**PAYLOADS[engine], "x": 0})[:-2] + "[" * depth + "]" * depth + "}"
        twice = [json.loads(deep), json.loads(deep)] if depth < 900 else [parsed(deep), parsed(deep)]
        verdict, [warning] = read(*twice)
        assert verdict == read(PAYLOADS[engine])[0]
        assert "with x, which is ignored" in warning


def parsed(stats: str) -> Any:
    event = SSEEvent(f'{{"s":{stats}}}'.encode())
    found = parse_event(event, 0, (("s",),))
    assert found is not None
    return found.spec_decode_stats


class Acme:
    """Claim everything and say what the test wants said."""

    payload_path: ClassVar[tuple[str, ...]] = ("acme", "*", "stats")
    claims: ClassVar[Any] = True
    answer: ClassVar[Any] = None

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        if isinstance(cls.claims, BaseException):
            raise cls.claims
        return cls.claims  # type: ignore[no-any-return]

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | None:
        if isinstance(cls.answer, BaseException):
            raise cls.answer
        return cls.answer  # type: ignore[no-any-return]


def acme(claims: Any = True, answer: Any = None) -> Adapter:
    return Adapter("acme", type("Acme2", (Acme,), {"claims": claims, "answer": answer}), "acme-dist")


class NoTruth:
    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


LEAVING = (SystemExit(3), CancelledError())


class TestThirdParty:
    own: ClassVar[dict[str, int]] = {"acme": 1}

    @pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), AssertionError("no"), *LEAVING])
    def test_an_adapter_that_raises_in_can_adapt_claims_nothing(self, error: BaseException) -> None:
        registry = AdapterRegistry((*BUILT_IN, acme(claims=error)))
        for engine in ENGINES:
            record, _ = registry.read([response(PAYLOADS[engine])], several_sequences=False)
            assert record is not None
            assert record.engine == engine
        assert registry.read([response(self.own)], several_sequences=False) == (None, DropReason.UNRECOGNIZED)
        assert len(registry.warnings) == 1
        assert "'acme'" in registry.warnings[0]
        assert type(error).__name__ in registry.warnings[0]

    def test_a_claim_without_a_truth_value_is_none(self) -> None:
        (record, reason), warnings = read(self.own, adapters=(acme(claims=NoTruth()),))
        assert (record, reason, len(warnings)) == (None, DropReason.UNRECOGNIZED, 1)

    def test_what_an_adapter_prints_and_changes_reaches_nobody_else(self, capsys: pytest.CaptureFixture[str]) -> None:
        class Vandal(Acme):
            @classmethod
            def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
                sys.stdout.write("here I am\n")
                for each in responses:
                    each.text, each.usage = "", None
                    each.spec_decode_stats.clear()
                responses.clear()
                return False

        registry = AdapterRegistry((Adapter("vandal", Vandal, "vandals"), *BUILT_IN))
        for engine in ENGINES:
            told = response(PAYLOADS[engine])
            told.text, told.usage = "said", Usage(1, 2)
            before = deepcopy(told)
            record, _ = registry.read([told], several_sequences=False)
            assert record is not None
            assert (record.engine, told) == (engine, before)
        out, err = capsys.readouterr()
        assert (out, "here I am" in err) == ("", True)

    @pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), TypeError(), *LEAVING])
    def test_an_adapter_that_raises_in_adapt_has_malformed_payloads(self, error: BaseException) -> None:
        registry = AdapterRegistry((*BUILT_IN, acme(answer=error)))
        for _ in range(3):
            assert registry.read([response(self.own)], several_sequences=False) == (None, DropReason.MALFORMED)
        assert len(registry.warnings) == 1
        assert "'acme'" in registry.warnings[0]

    @pytest.mark.parametrize("answer", [{"num_spec_steps": 1}, "record", 3, True, [], NoTruth(), object])
    def test_what_is_no_record_is_malformed(self, answer: Any) -> None:
        registry = AdapterRegistry((acme(answer=answer),))
        for _ in range(3):
            assert registry.read([response(self.own)], several_sequences=False) == (None, DropReason.MALFORMED)
        assert len(registry.warnings) == 1
        assert "instead of a record" in registry.warnings[0]

    def test_none_is_malformed_without_a_warning(self) -> None:
        assert read(self.own, adapters=(acme(answer=None),)) == dropped(DropReason.MALFORMED)

    def test_a_record_is_taken(self) -> None:
        (record, _), _ = read(PAYLOADS["vllm"])
        assert read(self.own, adapters=(acme(answer=record),)) == ((record, None), [])

    def test_a_greedy_adapter_makes_payloads_ambiguous_with_one_warning(self) -> None:
        registry = AdapterRegistry((*BUILT_IN, acme()))
        for _ in range(5):
            verdict = registry.read([response(PAYLOADS["vllm"])], several_sequences=False)
            assert verdict == (None, DropReason.AMBIGUOUS)
        assert registry.warnings == [
            "several adapters claim the same payload (vllm, acme): such requests have no record"
        ]

    def test_its_path_is_captured_beside_the_others(self) -> None:
        paths = AdapterRegistry((*BUILT_IN, acme(), acme())).payload_paths
        assert paths == (*AdapterRegistry(BUILT_IN).payload_paths, ("acme", "*", "stats"))
        assert len({*paths}) == len(paths)


class TestPlugins:
    @pytest.fixture
    def install(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Pretend that distributions register what `load` returns or raises."""
        monkeypatch.delenv("SPEC_PROFILE_PLUGINS", raising=False)

        def pretend(*plugins: tuple[str, Any, str]) -> None:
            def point(name: str, load: Any, distribution: str) -> Any:
                def do_load() -> Any:
                    if isinstance(load, BaseException):
                        raise load
                    return load

                dist = SimpleNamespace(name=distribution) if distribution else None
                return SimpleNamespace(name=name, value=f"{name}_plugin:Adapter", dist=dist, load=do_load)

            class Points(list[Any]):
                def __call__(self, *, group: str) -> Any:
                    assert group == ENTRY_POINT_GROUP
                    return tuple(Hashable(**vars(each)) for each in self)

            monkeypatch.setattr(module, "entry_points", Points(point(*plugin) for plugin in plugins))

        return pretend

    def test_without_plugins_there_are_the_built_ins(self, install: Any) -> None:
        install()
        assert load_registry().adapters == BUILT_IN

    def test_a_plugin_comes_after_the_built_ins(self, install: Any) -> None:
        install(("zeta", Acme, "zeta-dist"), ("acme", Acme, "acme-dist"))
        registry = load_registry()
        assert registry.adapters == (*BUILT_IN, Adapter("acme", Acme, "acme-dist"), Adapter("zeta", Acme, "zeta-dist"))
        assert registry.warnings == []

    @pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt_llm"])
    def test_a_built_in_name_is_taken(self, install: Any, name: str) -> None:
        install((name, Acme, "acme-dist"))
        with pytest.raises(PluginError, match=f"'{name}' of acme-dist has a name that the built-in adapters took"):
            load_registry()

    def test_a_name_taken_twice_names_both_distributions(self, install: Any) -> None:
        install(("acme", Acme, "one-dist"), ("acme", Acme, "two-dist"))
        with pytest.raises(PluginError, match=r"two-dist .* one-dist") as caught:
            load_registry()
        assert caught.value.remedy is not None
        assert "SPEC_PROFILE_PLUGINS=0" in caught.value.remedy

    @pytest.mark.parametrize(
        "rubbish",
        [
            object,
            object(),
            Acme(),
            None,
            "Acme",
            lambda: Acme,
            type("NoPath", (), {"can_adapt": Acme.can_adapt, "adapt": Acme.adapt}),
            type("NoAdapt", (), {"payload_path": ("x",), "can_adapt": Acme.can_adapt}),
            type("NoCanAdapt", (), {"payload_path": ("x",), "adapt": Acme.adapt}),
            type("EmptyPath", (Acme,), {"payload_path": ()}),
            type("TextPath", (Acme,), {"payload_path": "acme.stats"}),
            type("ListPath", (Acme,), {"payload_path": ["acme"]}),
            type("NumberPath", (Acme,), {"payload_path": ("acme", 0)}),
            type("TextDescription", (Acme,), {"engine_description": "Acme"}),
        ],
        ids=lambda rubbish: getattr(rubbish, "__name__", type(rubbish).__name__),
    )
    def test_what_is_no_adapter_class_is_an_error_naming_its_distribution(self, install: Any, rubbish: Any) -> None:
        install(("acme", rubbish, "acme-dist"))
        with pytest.raises(PluginError, match=r"'acme' of acme-dist .* is no adapter class"):
            load_registry()

    def test_old_runs_are_read_with_the_built_in_engines_alone_where_a_plugin_is_unusable(self, install: Any) -> None:
        install(("acme", object, "acme-dist"))
        assert known_engines.__wrapped__() == AdapterRegistry(BUILT_IN).engines

    def test_a_description_is_known_by_the_plugins_name(self, install: Any) -> None:
        described = type("Described", (Acme,), {"engine_description": EngineDescription(name="Acme")})
        install(("acme", described, "acme-dist"), ("silent", Acme, "silent-dist"))
        assert list(known_engines.__wrapped__()) == [*AdapterRegistry(BUILT_IN).engines, "acme"]

    @pytest.mark.parametrize("error", [ImportError("no torch"), AttributeError("Adapter"), SyntaxError(), ValueError()])
    def test_one_that_fails_to_import_is_a_warning(self, install: Any, error: Exception) -> None:
        install(("broken", error, "broken-dist"), ("fine", Acme, "fine-dist"))
        registry = load_registry()
        assert [adapter.name for adapter in registry.adapters[len(BUILT_IN) :]] == ["fine"]
        assert len(registry.warnings) == 1
        assert "'broken' of broken-dist was not loaded" in registry.warnings[0]
        assert type(error).__name__ in registry.warnings[0]

    def test_a_plugin_of_an_unknown_distribution_is_named_so(self, install: Any) -> None:
        install(("acme", object, ""))
        with pytest.raises(PluginError, match="of an unknown distribution"):
            load_registry()

    @pytest.mark.parametrize("rubbish", [object, ImportError()])
    def test_the_variable_loads_none(self, install: Any, rubbish: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        install(("acme", rubbish, "acme-dist"))
        monkeypatch.setenv("SPEC_PROFILE_PLUGINS", "0")
        registry = load_registry()
        assert (registry.adapters, registry.warnings) == (BUILT_IN, [])

    def test_the_same_entry_point_found_twice_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # A distribution that stands on the path twice, as in an editable install, is reported twice.
        monkeypatch.delenv("SPEC_PROFILE_PLUGINS", raising=False)
        point = EntryPoint("acme", f"{__name__}:Acme", ENTRY_POINT_GROUP)
        again = EntryPoint(point.name, point.value, point.group)
        monkeypatch.setattr(module, "entry_points", lambda group: [point, again])
        monkeypatch.setattr(EntryPoint, "load", lambda self: Acme)
        assert [adapter.name for adapter in load_registry().adapters] == [*(a.name for a in BUILT_IN), "acme"]


class Hashable(SimpleNamespace):
    """Stand in for an entry point, which a dictionary can hold."""

    __hash__ = object.__hash__  # type: ignore[assignment]


VALUE: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        2,
        3,
        4,
        5,
        10,
        -1,
        0.0,
        0.3,
        1.75,
        3.0,
        2**53,
        2**64,
        10**400,
        -(10**400),
        float("nan"),
        float("inf"),
        1e308,
        "",
        "3",
        [],
        [3],
        [[]],
        {},
        {"0": 2},
        [2, 1, 1, 0],
        [2, 1, 1],
        [2, 0, 1, 0],
        [3, 3, 2, 2],
        [2, 1, 1, True],
        [2, 1, 1, 0.0],
        [2, 1, 1, None],
        [2, 1, 1, "0"],
        [-1, 4, 1, 0],
        [10**400],
        [float("nan")] * 4,
    ]
)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """Draw a payload of some engine with a few things wrong with it."""
    payload: Any = deepcopy(PAYLOADS[draw(st.sampled_from(ENGINES))])
    for _ in range(draw(st.integers(0, 3))):
        change = draw(st.sampled_from(["missing", "extra", "other", "nested", "item", "merge"]))
        key = draw(st.sampled_from([*payload] or ["x"]))
        if change == "missing":
            payload.pop(key, None)
        elif change == "extra":
            payload[draw(st.text(max_size=3))] = draw(VALUE)
        elif change == "other":
            payload[key] = draw(VALUE)
        elif change == "nested":
            payload[key] = {key: payload.get(key)}
        elif change == "item" and isinstance(payload.get(key), list) and payload[key]:
            payload[key][draw(st.integers(0, len(payload[key]) - 1))] = draw(VALUE)
        elif change == "merge":
            payload = {**payload, **PAYLOADS[draw(st.sampled_from(ENGINES))]}
    return draw(st.sampled_from([payload, payload, payload, [payload], {"x": payload}, [payload, payload]]))


@settings(max_examples=600)
@given(stats=st.lists(mutated() | VALUE, max_size=3), usage=st.none() | st.builds(Usage, st.none(), VALUE))
def test_any_payload_is_a_sound_record_or_a_reason(stats: list[Any], usage: Usage | None) -> None:
    registry = AdapterRegistry(BUILT_IN)
    responses = [TOKEN, *map(response, stats), ParsedResponse(9, usage=usage)]
    for _ in range(2):
        record, reason = registry.read(responses, several_sequences=False)
        assert (reason is None) is isinstance(record, SpecDecodeAcceptanceRecord)
        assert (reason is DropReason.TOTALS_ONLY) is isinstance(record, DraftTotals)
        if isinstance(record, SpecDecodeAcceptanceRecord):
            assert broken_identities(record.model_dump()) == set()
            assert record.num_spec_steps > 0
        # Built-in adapters are ours: they answer for whatever a server sends and do not lean on the guard.
        said = ("several adapters claim", "which this was written against")
        assert all(any(text in warning for text in said) for warning in registry.warnings)
        assert len(registry.warnings) <= 1 + len(ENGINES)
