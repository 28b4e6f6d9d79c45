"""A course of candidates: order, best, verdicts, and who is left out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from aiperf_spec.analysis.clusters import length_terms
from aiperf_spec.analysis.comparison.compare import Verdict
from aiperf_spec.analysis.comparison.course import Candidate, Course, LeftOut, Obstacle, course, place_order
from aiperf_spec.analysis.comparison.mismatches import MismatchKind, Run
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import holm_adjusted
from aiperf_spec.cli.app import app
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.models.run import ErrorKind, RequestRecord
from aiperf_spec.render.course import cautions, course_report, left_out, sentences
from tests.bench.courses import PLANTED, SETTINGS, drawn, false_alarms, in_order, lost
from tests.records import failed
from tests.simulated_runs import request, simulated_run
from tests.support import Simulate


def against(*candidates: Sequence[RequestRecord], base: int = 24, **settings: Any) -> Course:
    runs = [Run(f"c{i}", records, replace(SETTINGS, **settings)) for i, records in enumerate(candidates)]
    return course(
        Run("base", simulated_run(1, base), SETTINGS), [Candidate(run, str(i)) for i, run in enumerate(runs)], "step"
    )


def shown(found: RenderableType, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(found)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def words(text: str) -> str:
    return " ".join(text.split())


def test_numbers_are_ordered_as_numbers_and_texts_as_text() -> None:
    places = ["10", "9", "b", "1e3", "nan", "a", "-2.5", "1_0"]
    assert sorted(places, key=place_order) == ["-2.5", "9", "10", "1e3", "1_0", "a", "b", "nan"]
    runs = [Candidate(Run(place, simulated_run(1, 12), SETTINGS), place) for place in ("10", "9", "100")]
    found = course(Run("base", simulated_run(1, 12), SETTINGS), runs)
    assert [each.place for each in found.checkpoints] == ["9", "10", "100"]


def test_a_planted_order_is_recovered() -> None:
    found = drawn(3, 100, PLANTED)
    assert (found.best, in_order(found, PLANTED), lost(found, PLANTED)) == (5, True, False)
    assert [each.against_base.verdict for each in found.checkpoints[:2]] == [Verdict.WORSE] * 2
    assert [each.against_base.verdict for each in found.checkpoints[4:]] == [Verdict.BETTER] * 2
    assert found.checkpoints[5].against_best is None
    first, second = sentences(found)
    assert first.startswith("step 6000 is the best")
    assert second.startswith("It is better than the base: 2.")


def test_equal_checkpoints_get_no_verdict() -> None:
    assert false_alarms(40, 12) <= 2  # by p without the correction, 12 of these 40 would have a verdict
    same = simulated_run(1, 24)
    found = against(same, same)
    assert {each.against_base.verdict for each in found.checkpoints} == {Verdict.NONE_SHOWN}
    assert (found.best, found.tests) == (0, 0)
    assert "No candidate is shown to be better than another. step 0 has" in words(shown(course_report(found)))


def test_the_correction_is_holms_over_every_pair() -> None:
    runs = [simulated_run(1, 24, shift=shift, noise=i) for i, shift in enumerate((0.0, 0.03, 0.06, 0.09))]
    found = against(*runs[1:])
    p = [
        difference(runs[i], runs[j], length_terms, pair_up(runs[i], runs[j])).p or 0.0
        for i in range(4)
        for j in range(i + 1, 4)
    ]
    adjusted = holm_adjusted(p)
    assert found.tests == 6
    assert [each.against_base.adjusted_p for each in found.checkpoints] == pytest.approx(adjusted[:3])
    assert found.best == 2
    to_best = [each.against_best for each in found.checkpoints[:2]]
    assert [each and each.adjusted_p for each in to_best] == pytest.approx([adjusted[4], adjusted[5]])
    assert all(each is not None and (each.difference.estimate.value or 0) < 0 for each in to_best)


def test_lengths_are_over_the_prompts_that_all_answered() -> None:
    run = simulated_run(1, 24)
    found = against(run[:20], run[4:])
    assert (found.prompts, found.base_prompts) == (16, 24)
    values = {each.length.value for each in found.checkpoints} | {found.base_length.value}
    assert len(values) == 1
    assert "16 of the base's 24 prompts" in words(shown(course_report(found)))


def test_prompts_pair_by_id_where_their_content_is_not_known() -> None:
    bare = [replace(each, prompt_hash="") for each in simulated_run(1, 24)]
    found = against(bare, simulated_run(1, 24), prompts_path=None)
    assert (found.prompts, found.left_out) == (24, ())
    elsewhere = against(bare, prompts="other.jsonl")
    assert [(each.reason, each.values) for each in elsewhere.left_out] == [
        (Obstacle.OTHER_PROMPTS, {"shared": 0, "prompts": 24})
    ]


def test_who_cannot_be_compared_is_listed_with_the_reason() -> None:
    run = simulated_run(1, 24)
    silent = [replace(each, acceptance=None) for each in run]
    others = [request(i, (1, 2, 3), k=7, prompt=f"prompt-{i}") for i in range(24)]
    given = {
        "few": (run[:11], SETTINGS),
        "silent": (silent, SETTINGS),
        "long": (others, SETTINGS),
        "hot": (run, replace(SETTINGS, sampling={"temperature": 1})),
        "good": (run, SETTINGS),
    }
    candidates = [Candidate(Run(name, *each), name) for name, each in given.items()]
    gone = LeftOut("gone", Obstacle.UNREADABLE, {"message": "no such folder"})
    found = course(Run("base", run, SETTINGS), candidates, "name", [gone])
    assert [each.name for each in found.checkpoints] == ["good"]
    assert {each.name: each.reason for each in found.left_out} == {
        "gone": Obstacle.UNREADABLE,
        "few": Obstacle.OTHER_PROMPTS,
        "silent": Obstacle.NO_ACCEPTANCE,
        "long": MismatchKind.DRAFT_LENGTH,
        "hot": MismatchKind.SAMPLING,
    }
    told = " ".join(left_out(found))
    for text in ("gone: no such folder.", "only 11 of the base's 24 prompts", "temperature 0; temperature 1"):
        assert text in told
    assert "name good is the only candidate that can be compared" in words(shown(course_report(found)))
    nobody = course(Run("base", run, SETTINGS), candidates[:1])
    assert (nobody.best, list(sentences(nobody))) == (None, ["No candidate can be compared with the base."])
    assert "Lengths are over" not in shown(course_report(nobody))
    with pytest.raises(SpecProfileError, match="'base' reports no acceptance"):
        course(Run("base", silent, SETTINGS), candidates)


def test_what_misleads_is_said_of_whom_it_concerns() -> None:
    run = simulated_run(1, 24)
    broken = [*run, failed(99, ErrorKind.HTTP_STATUS)]
    found = against(run, broken)
    assert [len(each.mismatches) for each in found.checkpoints] == [0, 1]
    (said,) = cautions(found)
    assert said.startswith("step 1: 24 of 24 requests succeeded; 24 of 25")
    assert not against(run, concurrency=9).checkpoints[0].mismatches


def test_below_five_prompts_nothing_is_judged() -> None:
    runs = [simulated_run(1, 4, noise=i) for i in range(2)]
    found = against(*runs, base=4)
    assert found.tests == 0
    assert found.checkpoints[0].length.reason is Missing.TOO_FEW
    assert {each.against_base.verdict for each in found.checkpoints} == {Verdict.NOT_JUDGED}
    assert "but nothing is judged (fewer than 5 prompts)" in words(shown(course_report(found)))


def test_the_table_fits_eighty_columns_and_tells_equal_places_apart() -> None:
    runs = [Candidate(Run(f"/runs/{i}", simulated_run(1, 24, noise=i), SETTINGS), "x" * 60) for i in range(3)]
    found = course(Run("/runs/base", simulated_run(1, 24), SETTINGS), runs, "data")
    text = shown(course_report(found))
    assert max(map(len, text.splitlines())) <= 80
    for number in range(3):
        assert f"({number})" in words(text)


def profile(url: str, out: Path, *more: str) -> Any:
    given: tuple[str, ...] = ("--url", url, "--concurrency", "4", "--max-tokens", "48", "--temperature", "0")
    given += (
        "--request-count",
        "12",
        "--extra-inputs",
        "ignore_eos:true",
        "--no-server-metrics",
        "--quiet",
        "--artifact-dir",
        str(out),
    )
    return CliRunner().invoke(app, [*given, *more])


def test_a_course_of_runs(simulate: Simulate, tmp_path: Path) -> None:
    accepted = {"base": 0.4, "900": 0.5, "10000": 0.9, "2000": 0.7}
    for name, acceptance in accepted.items():
        tags = () if name == "base" else ("--tag", f"step={name}")
        assert profile(simulate("vllm", acceptance=acceptance).url, tmp_path / name, *tags).exit_code == 0
    folders = [str(tmp_path / name) for name in accepted]
    (tmp_path / "empty").mkdir()
    gates = ("--require", "acceptance_length >= 0.98 * best", "--strict")

    def compare(*more: str, columns: int = 80) -> Any:
        return CliRunner().invoke(app, ["compare", *folders, *more], env={"COLUMNS": str(columns)})

    page = tmp_path / "course.html"
    by_step = compare(str(tmp_path / "empty"), "--order-by", "step", *gates, "--html", str(page))
    assert by_step.exit_code == 3, by_step.output
    text = words(by_step.stdout)
    places = [text.index(f" {step} 12 ") for step in (900, 2000, 10000)]
    assert places == sorted(places)
    assert "step 10000 is the best: it has the greatest acceptance length" in text
    assert "empty" in text[text.index("Left out") :]
    assert "1 candidate left out: a run that cannot be compared meets no gate" in words(by_step.stderr)
    assert [text.count(each) for each in ("Gates, step", " not met")] == [3, 2]
    html = page.read_text()
    for part in ("Acceptance length by step", "Table: course", "Left out", "Difference from the best", "not met"):
        assert part in html
    document = json.loads(compare("--order-by", "step", "--format", "json").stdout)
    assert (document["best"], document["prompts"]) == (folders[2], 12)
    assert [each["against_base"]["verdict"] for each in document["candidates"]] == ["better"] * 3
    rows = list(csv.DictReader(io.StringIO(compare("--order-by", "step", "--format", "csv").stdout)))
    assert [row["place"] for row in rows] == ["base", "900", "2000", "10000"]
    assert float(rows[3]["less_base"]) == document["candidates"][2]["against_base"]["difference"]["value"]
    dated = json.loads(compare("--order-by", "date", "--format", "json").stdout)
    assert [each["run"] for each in dated["candidates"]] == folders[1:]
    # Without an order, gates know the best too.
    plain = json.loads(compare("--format", "json", *gates[:2]).stdout)
    assert [each["results"][0]["passed"] for each in plain["gates"]] == [False, True, False]
    for more, said in (
        (("--order-by", "stepp"), "--order-by 'stepp': no candidate has this tag"),
        (("--format", "csv"), "add --order-by TAG"),
        (("--order-by", "step", "--outputs"), "--order-by compares acceptance lengths"),
    ):
        refused = compare(*more)
        assert (refused.exit_code, said in words(refused.stderr)) == (2, True), refused.output
    for command in (["compare", *folders[:2], *gates], ["report", folders[0], *gates[:2]]):
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 2
        assert "best is the best of several candidates" in words(refused.stderr)
