"""The answers of runs against each other: which are identical, where others part, what that says."""

from __future__ import annotations

import io
import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy.stats import binomtest
from typer.testing import CliRunner, Result

from aiperf_spec import ProfileConfig, profile
from aiperf_spec.analysis.comparison.mismatches import Run, RunSettings
from aiperf_spec.analysis.comparison.near_ties import Untold
from aiperf_spec.analysis.comparison.outputs import NearTies, OutputComparison, OutputVerdict, compare_outputs
from aiperf_spec.analysis.statistics import sign_test
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.cli.app import app
from aiperf_spec.errors import ConfigError, SpecProfileError
from aiperf_spec.models.response import Answer, ParsedResponse, TokenChoice
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.render.outputs import outputs_report
from aiperf_spec.wire.outcome import whole_answer
from aiperf_spec.workload.prompts import hashed
from tests.simulated_runs import request
from tests.support import Simulate


def answered(
    index: int, text: str, *, kept: bool = True, temperature: float | None = 0.0, **more: Any
) -> RequestRecord:
    seeded = more.pop("seeded", False)
    answer = Answer(hashed(text.encode()), len(text), temperature, seeded, text if kept else None)
    return replace(request(index, (2, 1), **more), answer=answer)


def run(name: str, texts: list[str], **more: Any) -> Run:
    return Run(name, [answered(i, text, **more) for i, text in enumerate(texts)])


def only(base: Run, candidate: Run, control: Run | None = None) -> OutputComparison:
    (found,) = compare_outputs(base, [candidate], control)
    return found


def shown(found: OutputComparison) -> str:
    screen = io.StringIO()
    Console(file=screen, width=200).print(outputs_report(found))
    return screen.getvalue()


TEXTS = [f"answer {i}: " + "word " * (10 + i) for i in range(75)]


def planted(places: dict[int, int]) -> list[str]:
    return [f"{text[: places[i]]}~{text[places[i] :]}" if i in places else text for i, text in enumerate(TEXTS)]


def test_planted_differences_are_found_where_they_are_and_none_else() -> None:
    places = {3: 0, 8: 17, 40: len(TEXTS[40])}
    found = only(run("base", TEXTS), run("candidate", planted(places)))
    assert {parting.base_index: parting.shared for parting in found.partings} == places
    assert [(parting.base or "")[:5] for parting in found.partings] == ["answe", TEXTS[8][17:22], ""]
    assert all((parting.candidate or "").startswith("~") for parting in found.partings)
    assert (found.identical.same, found.identical.pairs, found.median_shared) == (72, 75, 17)
    assert max(len(parting.base or "") for parting in found.partings) <= 60


def test_a_control_tells_what_speculation_changes_from_what_batches_change() -> None:
    base, candidate = run("base", TEXTS), run("candidate", planted(dict.fromkeys(range(51), 9)))
    alone = only(base, candidate)
    assert alone.verdict is OutputVerdict.NO_CONTROL
    assert "Batch effects alone can change greedy answers." in shown(alone)
    found = only(base, candidate, run("again", TEXTS))
    assert found.verdict is OutputVerdict.NOT_LOSSLESS
    assert "control 75 of 75: not lossless." in shown(found)
    assert "identical 24 of 75" in shown(found)
    # The control has as many differences, of other prompts.
    noisy = only(base, candidate, run("again", planted(dict.fromkeys(range(24, 75), 4))))
    assert noisy.verdict is OutputVerdict.NONE_SHOWN
    assert noisy.control is not None
    assert (noisy.control.fewer, noisy.control.more, noisy.control.p) == (24, 24, 1.0)
    # A single one beside a silent control is not shown to be more than chance.
    assert only(base, run("candidate", planted({4: 4})), run("again", TEXTS)).verdict is OutputVerdict.NONE_SHOWN
    assert only(base, run("candidate", TEXTS), run("again", planted({4: 4}))).verdict is OutputVerdict.IDENTICAL


def test_candidates_share_the_chance_of_a_false_finding() -> None:
    base, control = run("base", TEXTS), run("again", TEXTS)
    candidate = run("candidate", planted(dict.fromkeys(range(6), 3)))
    assert only(base, candidate, control).verdict is OutputVerdict.NOT_LOSSLESS  # p = 2 / 2^6
    (first, second) = compare_outputs(base, [candidate, candidate], control)
    assert {first.verdict, second.verdict} == {OutputVerdict.NONE_SHOWN}


@pytest.mark.parametrize(("fewer", "more"), [(0, 0), (0, 6), (5, 1), (24, 24), (300, 251), (2000, 0)])
def test_the_sign_test_is_the_binomial_one(fewer: int, more: int) -> None:
    expected = binomtest(fewer, fewer + more).pvalue if fewer + more else 1.0
    assert sign_test(fewer, more) == pytest.approx(expected, abs=1e-12)


def test_the_interval_is_over_prompts_and_not_over_repeats() -> None:
    def of(name: str, changed: set[int]) -> Run:
        prompts = [i % 6 for i in range(60)]
        texts = [f"{TEXTS[prompt]}{'~' * (prompt in changed)}" for prompt in prompts]
        return Run(name, [answered(i, text, prompt=f"p{prompts[i]}") for i, text in enumerate(texts)])

    share = only(of("base", set()), of("candidate", {2, 3})).identical.share
    assert share.value == pytest.approx(2 / 3)
    assert share.n == 6
    assert share.low is not None
    assert share.high is not None
    assert share.high - share.low > 0.5


def test_later_turns_count_only_up_to_the_first_that_parts() -> None:
    def of(name: str, texts: list[list[str]]) -> Run:
        turns = [(p, t, text) for p, each in enumerate(texts) for t, text in enumerate(each)]
        return Run(name, [answered(i, text, prompt=f"p{p}", turn=t) for i, (p, t, text) in enumerate(turns)])

    base = of("base", [["a", "b", "c"], ["d", "e", "f"]])
    found = only(base, of("candidate", [["a", "X", "Y"], ["d", "e", "f"]]))
    assert (found.identical.same, found.identical.pairs, found.later_turns) == (4, 5, 1)
    assert [(parting.turn, parting.shared) for parting in found.partings] == [(1, 0)]


def test_without_texts_the_place_is_not_known() -> None:
    found = only(run("base", TEXTS, kept=False), run("candidate", planted({4: 4})))
    assert [parting.shared for parting in found.partings] == [None]
    assert found.median_shared is None
    assert "repeat both runs with --keep-outputs" in shown(found)


def test_how_many_part_at_near_ties_is_said_and_of_how_many_it_is_not_known() -> None:
    def of(name: str, tokens: list[str], others: dict[str, float]) -> Run:
        records = [answered(i, f"so {token}") for i, token in enumerate(tokens)]
        for at, (record, token) in enumerate(zip(records, tokens, strict=True)):
            listed = tuple((other.encode(), p) for other, p in others.items() if other != token)
            choice = TokenChoice(token.encode(), -1.0, listed) if at < 4 else TokenChoice(token.encode())
            assert record.answer is not None
            record.answer.choices = (TokenChoice(b"so ", -0.1, ((b"no ", -3.0),)), choice)
        return Run(name, records)

    found = only(of("base", ["a"] * 6, {"b": -1.05, "c": -2.0}), of("candidate", [*"bcbbba"], {}))
    assert found.near_ties == NearTies(3, 1, {Untold.NOT_HERE: 1})
    screen = shown(found)
    assert "Parted at a near-tie: 3 of 5; elsewhere: 1; not known: 1 (none listed at the place: 1)." in screen
    # What is no near-tie stands first: it is what is to be looked at.
    assert screen.index("after 3 characters, 1.00 nats apart") < screen.index(
        "after 3 characters, a near-tie (0.05 nat)"
    )
    assert "--export-level raw" not in screen
    last = only(of("base", ["a"] * 5, {"b": -1.05}), of("candidate", [*"aaaab"], {}))
    assert "near-tie: 0 of 1; elsewhere: 0; not known: 1 (none listed at the place: 1)." in shown(last)
    without = shown(only(run("base", TEXTS), run("candidate", planted({4: 4}))))
    assert "make both runs with --export-level raw and log-probabilities" in without
    assert "near-tie:" not in without


def test_categories_have_shares_of_their_own() -> None:
    def of(name: str, texts: list[str]) -> Run:
        return Run(name, [answered(i, text, category="ab"[i % 2]) for i, text in enumerate(texts)])

    found = only(of("base", TEXTS), of("candidate", planted({1: 4, 3: 4, 4: 4})))
    assert {name: (each.same, each.pairs) for name, each in found.categories.items()} == {"a": (37, 38), "b": (35, 37)}
    assert found.shares["b"].value == pytest.approx(35 / 37)
    assert found.shares[None].value == pytest.approx(72 / 75)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"temperature": 0.7}, "sampled at temperature 0.7 without a seed"),
        ({"temperature": None}, "left the temperature to the server"),
    ],
)
def test_sampled_answers_are_refused(answers: dict[str, Any], said: str) -> None:
    base, sampled = run("base", TEXTS), run("later", TEXTS, **answers)
    for runs in ((base, sampled, None), (sampled, base, None), (base, base, sampled)):
        with pytest.raises(SpecProfileError, match=said) as error:
            only(*runs)
        assert "'later'" in error.value.message


def test_seeded_answers_are_compared_and_said_to_be_sampled() -> None:
    seeded = run("base", TEXTS, temperature=0.7, seeded=True)
    assert "sampled with a seed" in shown(only(seeded, seeded))


def test_runs_that_say_nothing_of_it_are_refused() -> None:
    old = Run("old", [request(i, (1, 2)) for i in range(6)])
    with pytest.raises(SpecProfileError, match=r"'old': its records do not say what was answered"):
        only(run("base", TEXTS), old)
    shorter = replace(run("shorter", TEXTS), settings=RunSettings(sampling={"max_tokens": 8, "temperature": 0}))
    longer = replace(shorter, name="longer", settings=RunSettings(sampling={"max_tokens": 9, "temperature": 0}))
    with pytest.raises(SpecProfileError, match="max_tokens 8 and 9"):
        only(shorter, longer)
    chat, completions = (replace(shorter, name=name, settings=RunSettings(endpoint=name)) for name in ("chat", "text"))
    with pytest.raises(SpecProfileError, match="endpoint chat and text"):
        only(chat, completions)
    # What switches speculation is what is compared.
    drafting = replace(shorter, settings=RunSettings(sampling={"max_tokens": 8, "temperature": 0, "n_max": 4}))
    assert only(shorter, drafting).verdict is OutputVerdict.IDENTICAL
    with pytest.raises(SpecProfileError, match="share no answered prompt"):
        only(run("base", TEXTS), Run("other", [answered(0, "a", prompt="elsewhere")]))


def test_runs_that_name_different_models_are_not_judged() -> None:
    one, other = (RunSettings(model=name) for name in ("one", "other"))
    base = replace(run("base", TEXTS), settings=one)
    changed = replace(run("candidate", planted(dict.fromkeys(range(20), 9))), settings=other)
    found = only(base, changed, base)
    assert found.verdict is OutputVerdict.OTHER_MODEL
    assert "control 75 of 75: not judged, for the runs name different models." in shown(found)
    # One model may have two names.
    assert only(base, replace(run("candidate", TEXTS), settings=other)).verdict is OutputVerdict.IDENTICAL
    assert only(base, replace(changed, settings=one), base).verdict is OutputVerdict.NOT_LOSSLESS


def test_continuations_are_data() -> None:
    text = "one\x1b[31m[bold]\n\tto"
    screen = shown(only(run("base", [text, "b"]), run("candidate", ["one ", "b\n"])))
    assert "\x1b" not in screen
    assert r"base       \x1b[31m[bold]\n\x09to" in screen
    assert r"base       (ends)" in screen
    assert r"candidate  \n" in screen


def test_a_call_of_a_tool_is_part_of_the_answer_and_its_id_is_not() -> None:
    def told(name: str, arguments: list[str], call_id: str) -> str:
        first = {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        rest = [{"index": 0, "function": {"arguments": piece}} for piece in arguments]
        return whole_answer([ParsedResponse(0, "so", tool_calls=(piece,)) for piece in (first, *rest)])

    assert told("f", ['{"a', '": 1}'], "x") == told("f", ['{"a": 1', "}"], "y")
    assert told("f", ['{"a": 1}'], "x") != told("f", ['{"a": 2}'], "x")
    assert told("f", ["{}"], "x") != told("g", ["{}"], "x")


def test_answers_are_read_back_only_where_they_are_asked_for(tmp_path: Path) -> None:
    awkward = 'a\u2028b "}},"spec_decode_acceptance":{ \U0001f600 },"metrics":{'
    records = [answered(0, awkward), answered(1, "b", kept=False)]
    (tmp_path / "profile_export.jsonl").write_bytes(b"".join(record_line(each, 0) for each in records))
    back = load_records(tmp_path, answers=True)
    assert [each.answer for each in back.records] == [each.answer for each in records]
    assert not back.unreadable
    assert [each.answer for each in load_records(tmp_path).records] == [None, None]


def test_texts_need_records() -> None:
    with pytest.raises(ConfigError, match="--keep-outputs keeps texts in records"):
        ProfileConfig.create(url="http://h:1", keep_outputs=True, export_level="summary")


def compare(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)], env={"COLUMNS": "100"})


def test_what_a_simulator_changes_is_found_and_nothing_else(simulate: Simulate, tmp_path: Path) -> None:
    wrong = simulate("vllm", changed_answers=0.4, near_ties=0.5)
    base_server = simulate("vllm", num_spec_tokens=0, near_ties=0.5)
    urls = {"base": base_server.url, "again": simulate("vllm").url, "wrong": wrong.url}
    for name, url in urls.items():
        result = profile(
            ProfileConfig.create(
                url=url,
                request_count=33,
                concurrency=4,
                max_tokens=48,
                temperature=0,
                server_metrics=False,
                artifact_dir=tmp_path / name,
                keep_outputs=name == "again",
                export_level="records" if name == "again" else "raw",
                extra_inputs={"logprobs": True, "top_logprobs": 2},
                workers=2 if name == "wrong" else 1,
            )
        )
        assert not [record for record in result.records if record.answer is not None]
    base, again, changed = (tmp_path / name for name in urls)
    with urllib.request.urlopen(f"{wrong.url}/ledger") as response:
        planted = {entry["request_id"]: entry for entry in json.load(response)}
    lines = map(json.loads, (changed / "profile_export.jsonl").read_text().splitlines())
    asked = {line["metadata"]["session_num"]: planted[line["metadata"]["x_request_id"]] for line in lines}
    expected = {index: entry["changed_at"] for index, entry in asked.items() if entry["changed_at"] is not None}
    near_ties = {index for index in expected if asked[index]["near_tie"]}
    assert 0 < len(near_ties) < len(expected)
    assert 5 <= len(expected) <= 28

    gate = ("--require", "identical_outputs >= 0.99")
    judged = compare(base, changed, "--control", again, *gate, "--format", "json")
    assert judged.exit_code == 3, judged.output
    document = json.loads(judged.stdout)
    (found,) = document["outputs"]
    assert {parting["candidate_index"]: parting["shared"] for parting in found["partings"]} == expected
    assert (found["identical"]["same"], found["identical"]["pairs"]) == (33 - len(expected), 33)
    places = {parting["candidate_index"]: parting["place"] for parting in found["partings"]}
    assert {index for index, place in places.items() if place["near_tie"]} == near_ties
    assert {place["gap"] for place in places.values()} == {0.0625, 2.5}
    assert found["near_ties"] == {
        "near_ties": len(near_ties),
        "elsewhere": len(expected) - len(near_ties),
        "unknown": {},
    }
    assert (found["control"]["identical"]["same"], found["control"]["fewer"]) == (33, len(expected))
    assert found["verdict"] == "not lossless"
    assert document["gates"][0]["results"][0]["figure"]["value"] == pytest.approx(1 - len(expected) / 33)

    told = " ".join(compare(base, changed, "--outputs").stdout.split())
    assert f"Parted at a near-tie: {len(near_ties)} of {len(expected)}" in told
    same = compare(base, again, "--outputs", *gate, "--html", tmp_path / "page.html")
    assert same.exit_code == 0, same.output
    assert "Answers: identical 33 of 33" in " ".join(same.stdout.split())
    assert "identical 33 of 33" in (tmp_path / "page.html").read_text()
    refused = compare(base, again, *gate)
    assert (refused.exit_code, "--outputs" in refused.output) == (2, True)
    assert compare(base, again, "--control", base).exit_code == 2
    itself = compare(base, base, "--outputs")
    assert (itself.exit_code, "a run's answers are always its own" in itself.output) == (2, True)
