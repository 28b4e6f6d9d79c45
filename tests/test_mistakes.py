"""Ten mistakes of a first contact: each ends in at most 4 lines of 80 columns, and the right thing to try."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from tests.answering import Answer, answering

COLUMNS = 80
PAGE = Answer(b"<!DOCTYPE html><html><head><title>Welcome to nginx!</title></head></html>", 200)
DENIED = Answer({"error": {"message": "Invalid API key"}}, 401)
NO_PATH = Answer({"detail": "Not Found"}, 404)
NO_MODEL = Answer({"object": "error", "message": "The model `wrong` does not exist.", "code": 404}, 404)
LISTED = Answer({"object": "list", "data": [{"id": "right", "owned_by": "vllm"}]})
EMPTY = Answer({"object": "list", "data": []})


@dataclass(frozen=True)
class Mistake:
    """What is typed, where URL stands for the server's; what the server answers; what is said, and the exit code."""

    typed: str
    error: str
    remedy: str
    answers: tuple[Answer, Answer] | None = None
    """To a POST and to a GET; None where nothing listens."""
    code: int = 1


MISTAKES = {
    "dead port": Mistake("--url URL", "no connection: 127.0.0.1:", "--url names its port; --ready-timeout S waits"),
    "dead port, model named": Mistake("--url URL --model m", "the first 3 requests all failed", "--url names its port"),
    "wrong host name": Mistake(
        "--url http://no.such.host.invalid", "cannot be resolved", "spelling of the host in --url"
    ),
    "wrong host name, model named": Mistake(
        "--url http://no.such.host.invalid --model m", "cannot be resolved", "spelling of the host in --url"
    ),
    "401": Mistake("--url URL", "HTTP 401 Unauthorized: Invalid API key", "--api-key or OPENAI", (DENIED, DENIED)),
    "401, model named": Mistake("--url URL --model m", "HTTP 401", "--api-key or OPENAI_API_KEY", (DENIED, DENIED)),
    "401, wrong key": Mistake("--url URL --model m --api-key k", "HTTP 401", "check the key (--api", (DENIED, DENIED)),
    "wrong model": Mistake(
        "--url URL --model wrong", "The model `wrong` does not exist", "the server lists right", (NO_MODEL, LISTED)
    ),
    "HTML page": Mistake("--url URL", "a web page (HTML), 'Welcome to nginx!'", "OpenAI-compatible API", (PAGE, PAGE)),
    "HTML page, model named": Mistake("--url URL --model m", "a web page (HTML)", "OpenAI-compatible", (PAGE, PAGE)),
    "404 path": Mistake("--url URL/x/v1", "/x/v1/models: HTTP 404 Not Found", "the path in --url", (NO_PATH, NO_PATH)),
    "404 path, model named": Mistake(
        "--url URL/x --model m", "/x/v1/chat/completions all failed", "check the path in --url", (NO_PATH, NO_PATH)
    ),
    "empty model list": Mistake("--url URL", "lists no model", "--ready-timeout S), or name it", (NO_MODEL, EMPTY)),
    "misspelt option": Mistake(
        "--url URL --concurency 4", "no option --concurency", "did you mean --concurrency", code=2
    ),
    "other program's option": Mistake("--url URL --max-concurrency 4", "no option", "it is --concurrency here", code=2),
    "misspelt category": Mistake("--url URL --category codng", "no prompt is of category codng", "coding (4)", code=2),
    "URL as argument": Mistake("http://h:8000", "'http://h:8000' is an address", "spec-profile --url http://h", code=2),
}


@pytest.fixture
def serve() -> Iterator[Callable[[tuple[Answer, Answer] | None], str]]:
    """Return the address of a server that answers so, or of a port at which nothing listens."""
    running = []

    def begin(answers: tuple[Answer, Answer] | None) -> str:
        if answers is None:
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))
                return f"http://127.0.0.1:{closed.getsockname()[1]}"
        context = answering(answers[0], answers[1])
        running.append(context)
        return context.__enter__().url

    yield begin
    for context in running:
        context.__exit__(None, None, None)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_at_a_glance(
    name: str, serve: Callable[[tuple[Answer, Answer] | None], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mistake = MISTAKES[name]
    typed = mistake.typed.replace("URL", serve(mistake.answers)).split()
    result = CliRunner().invoke(app, typed, env={"COLUMNS": str(COLUMNS)})
    assert result.exit_code == mistake.code, result.output
    assert result.stdout == ""
    error, remedy = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert mistake.error in error
    assert remedy.startswith("try:   ")
    assert mistake.remedy in remedy
    assert sum(-(-len(line) // COLUMNS) for line in (error, remedy)) <= 4


@pytest.mark.parametrize("name", [name for name, each in MISTAKES.items() if each.code == 1])
def test_doctor_says_the_same(name: str, serve: Callable[[tuple[Answer, Answer] | None], str]) -> None:
    mistake = MISTAKES[name]
    typed = mistake.typed.replace("URL", serve(mistake.answers)).split()
    result = CliRunner().invoke(app, ["doctor", *typed], env={"COLUMNS": "300"})
    assert result.exit_code == 1, result.output
    # It does not hold the model that was asked for against those that the server lists.
    tried = "--model against /v1/models" if name == "wrong model" else mistake.remedy
    assert tried in result.output


def test_all_are_sent_to_whoever_keeps_going(
    serve: Callable[[tuple[Answer, Answer] | None], str], tmp_path: Path
) -> None:
    arguments = ["--url", serve((NO_PATH, NO_PATH)), "--model", "m", "--keep-going", "--artifact-dir", str(tmp_path)]
    result = CliRunner().invoke(app, [*arguments, "--request-count", "6"], env={"COLUMNS": "100"})
    assert result.exit_code == 1
    assert "0 of 6 succeeded" in result.stdout
    assert "try: check the path in --url, and --model against /v1/models" in result.stdout


def test_a_rate_of_failures_is_said_below_what_was_measured(
    serve: Callable[[tuple[Answer, Answer] | None], str], tmp_path: Path
) -> None:
    asked = 0

    def every_second(_: dict[str, str]) -> Answer:
        nonlocal asked
        asked += 1
        return Answer() if asked % 2 else Answer({"error": "overloaded"}, 503)

    with answering(every_second, LISTED) as server:
        arguments = ["--url", server.url, "--no-streaming", "--request-count", "10", "--artifact-dir", str(tmp_path)]
        result = CliRunner().invoke(app, [*arguments, "--max-error-rate", "0.2"], env={"COLUMNS": "100"})
        assert result.exit_code == 1
        assert "3 of 6 succeeded, 3 failed" in result.stdout
        assert "error: 3 of 6 requests failed, more than --max-error-rate 0.2 allows" in result.stderr
        allowed = [*arguments, "--overwrite", "--max-error-rate", "0.5"]
        assert CliRunner().invoke(app, allowed, env={"COLUMNS": "100"}).exit_code == 0
