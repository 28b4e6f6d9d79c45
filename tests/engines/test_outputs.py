"""What `compare --outputs` says of a drafter, held against another reading of the raw files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from tests.derive_expected import logprobs_of, texts_of
from tests.engines.conftest import Serve
from tests.engines.llama_cpp import LLAMA_CPP
from tests.engines.runs import CODE_PROMPTS, profiled, write_rows
from tests.engines.server import NO_DRAFTER, Engine, Server, Setup
from tests.engines.vllm import VLLM

pytestmark = pytest.mark.engine
LOGPROBS: dict[str, dict[str, Any]] = {"chat": {"logprobs": True, "top_logprobs": 5}, "completions": {"logprobs": 5}}
PROMPTS = [json.loads(line)["messages"][0]["content"] for line in CODE_PROMPTS.read_text().splitlines()[::2]]
Token = tuple[str, float | None, dict[str, float]]


async def measured(server: Server, folder: Path, endpoint: str) -> Path:
    """Run the prompts one after the other, log-probabilities and all; return the run's folder."""
    file = write_rows(folder.parent, *({"text": text} for text in PROMPTS))
    options: dict[str, Any] = {"endpoint_type": endpoint, "extra_inputs": LOGPROBS[endpoint], "artifact_dir": folder}
    result = await profiled(server, input_file=file, **options)
    assert not [record for record in result.records if record.error]
    return folder


def compared(*arguments: str | Path) -> tuple[dict[str, Any], str]:
    """Return what the comparison of the answers says, as JSON and on the screen."""
    given = ["compare", *map(str, arguments)]
    told = CliRunner().invoke(app, [*given, "--format", "json"])
    assert told.exit_code == 0, told.output
    screen = CliRunner().invoke(app, given, env={"COLUMNS": "110"}).stdout
    sys.stdout.write(screen[screen.index("\nAnswers, ") :])
    (found,) = json.loads(told.stdout)["outputs"]
    return found, " ".join(screen.split())


def tokens_by_request(folder: Path) -> dict[int, list[Token]]:
    """Return each answer's tokens by its request; where none is listed, the text of an event is one."""
    found: dict[int, list[Token]] = {}
    for line in (folder / "profile_export_raw.jsonl").read_text().splitlines():
        row = json.loads(line)
        packets = [packet["value"] for each in row["responses"] for packet in each["packets"]]
        events = [json.loads(data) for data in packets if data != "[DONE]"]
        rows = found.setdefault(row["metadata"]["session_num"], [])
        for event in events:
            rows += logprobs_of([event]) or ([(text, None, {})] if (text := "".join(texts_of(event))) else [])
    return found


def place_of(base: list[Token], candidate: list[Token]) -> tuple[int, float | None]:
    """Return how many characters two answers share, and how far from the base's own token the candidate's is there."""
    mine, theirs = ("".join(token for token, _, _ in side) for side in (base, candidate))
    shared = next(at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b)
    (_, logprob, top), other = next((a, b[0]) for a, b in zip(base, candidate, strict=False) if a[0] != b[0])
    if logprob is None or len(top) < 2:
        return shared, None
    assert logprob == max(top.values())
    return shared, logprob - top.get(other, min(top.values()))


def assert_counted(found: dict[str, Any], screen: str, base: Path, candidate: Path, again: Path) -> None:
    """Hold what is said of answers against their events."""
    mine, theirs, control = map(tokens_by_request, (base, candidate, again))
    texts = [{i: "".join(token for token, _, _ in side[i]) for i in side} for side in (mine, theirs, control)]
    parted = [i for i in sorted(mine) if texts[0][i] != texts[1][i]]
    same = len(PROMPTS) - len(parted)
    assert [len(side) for side in texts] == [len(PROMPTS)] * 3
    assert (found["identical"]["same"], found["identical"]["pairs"]) == (same, len(PROMPTS))
    assert f"Answers: identical {same} of {len(PROMPTS)}" in screen
    assert found["control"]["identical"]["same"] == sum(texts[0][i] == texts[2][i] for i in mine)
    assert sorted(parting["base_index"] for parting in found["partings"]) == parted
    for parting in found["partings"]:
        shared, gap = place_of(mine[parting["base_index"]], theirs[parting["candidate_index"]])
        assert parting["shared"] == shared
        assert parting["place"]["gap"] == (None if gap is None else pytest.approx(gap))
        assert parting["place"]["near_tie"] == (None if gap is None else gap <= 0.1)


async def test_answers_with_and_without_a_drafter(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    plain = serve(engine, NO_DRAFTER)
    base, again = [await measured(plain, tmp_path / name, "chat") for name in ("base", "again")]
    drafted = await measured(serve(engine), tmp_path / "drafted", "chat")
    assert_counted(*compared(base, drafted, "--control", again), base, drafted, again)


@pytest.mark.parametrize("engine", [LLAMA_CPP], indirect=True, ids=["llama_cpp"])
async def test_made_up_acceptance_is_called_not_lossless(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    plain = serve(engine, NO_DRAFTER)
    base, again = [await measured(plain, tmp_path / name, "completions") for name in ("base", "again")]
    made_up = Setup("draft", 3, ("--spec-synth-rates", "0.8,0.5,0.2", "--spec-draft-p-min", "0"))
    wrong = await measured(serve(engine, made_up), tmp_path / "wrong", "completions")
    found, screen = compared(base, wrong, "--control", again)
    assert_counted(found, screen, base, wrong, again)
    assert found["verdict"] == "not lossless"
    assert f"control {len(PROMPTS)} of {len(PROMPTS)}: not lossless." in screen
    told = found["near_ties"]
    assert told["near_ties"] + told["elsewhere"] + sum(told["unknown"].values()) == len(found["partings"])
    assert told["elsewhere"] > 0
    lossless, screen = compared(base, again, "--outputs")
    assert lossless["verdict"] == "identical"
    assert f"identical {len(PROMPTS)} of {len(PROMPTS)}" in screen


@pytest.mark.parametrize("engine", [VLLM], indirect=True, ids=["vllm"])
async def test_rounding_alone_parts_answers_at_near_ties(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    plain = serve(engine, NO_DRAFTER)
    base, again = [await measured(plain, tmp_path / name, "completions") for name in ("base", "again")]
    finer = Setup(NO_DRAFTER.drafter, 0, ("--dtype", "float32"))
    rounded = await measured(serve(engine, finer), tmp_path / "rounded", "completions")
    found, screen = compared(base, rounded, "--control", again)
    assert_counted(found, screen, base, rounded, again)
    assert found["near_ties"]["near_ties"] > found["near_ties"]["elsewhere"]
