"""Text of servers and files is data: never markup, never a terminal's command, never a secret's way out."""

from __future__ import annotations

import base64
import json
import ssl
import unicodedata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.artifacts.read.answers import load_answers
from aiperf_spec.cli.app import app
from aiperf_spec.config.secret_names import REDACTED
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.profiling import profile
from tests.answering import OK, Answer, answering

HOSTILE = (
    "[bold red]x[/bold red] \x1b[31mred\x1b]0;title\x07 \u202eever\u202c\u2066 \x00\r\n\u2028 =cmd|'/C calc'!A0 [/]"
)
TLS = Path(__file__).parent / "tls"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--no-streaming"], env={"COLUMNS": "100"})


def harmless(text: str) -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") for c in text if c != "\n")


def models(name: str, owner: str = "vllm") -> Any:
    return {"object": "list", "data": [{"id": name, "owned_by": owner}]}


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"error": {"message": HOSTILE}}, status=400),
        Answer({"object": "error", "message": HOSTILE * 1000}, status=503),
        Answer(HOSTILE.encode(), status=502),
        Answer({"error": HOSTILE}),
        Answer(b"{" + HOSTILE.encode()),
        Answer(b"", status=302, headers={"location": "http://elsewhere/[bold]"}),
        Answer({**OK, "choices": [{"message": {"content": HOSTILE}, "finish_reason": HOSTILE}]}),
    ],
    ids=["error", "flat", "text", "in-200", "not-json", "redirect", "content"],
)
def test_server_text_is_shown_harmless(answer: Answer, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with answering(answer, models(HOSTILE, HOSTILE)) as server:
        result = invoke("--url", server.url, "--request-count", "2", "--artifact-dir", str(out))
    assert "Traceback" not in result.output
    assert harmless(result.stdout), ascii(result.stdout)
    assert harmless(result.stderr), ascii(result.stderr)
    if answer.status != 302:
        assert "[bold red]x[/bold red]" in result.stdout
    paths = list(out.glob("*.json*"))
    assert paths
    for path in paths:
        for line in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            json.loads(line)


def test_a_huge_message_is_cut_everywhere(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with answering(Answer({"error": {"message": "x" * 10_000_000}}, status=400)) as server:
        arguments = ("--url", server.url, "--model", "m", "--request-count", "3", "--artifact-dir", str(out))
        result = invoke(*arguments, "--export-level", "raw")
    assert result.exit_code == 1
    assert len(result.output) < 5000
    sizes = {path.name: path.stat().st_size for path in out.iterdir()}
    assert "profile_export.jsonl" in sizes
    assert max(sizes.values()) < 30_000


def test_hostile_names_make_a_plain_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with answering(Answer(), models("../../" + HOSTILE)) as server:
        assert invoke("--url", server.url, "--request-count", "1").exit_code == 0
    (folder,) = (tmp_path / "artifacts").iterdir()
    assert folder.name.isascii()
    assert harmless(folder.name)
    assert ".." not in folder.name.split("-")


def test_hostile_categories_and_ids(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"text": HOSTILE, "category": HOSTILE, "question_id": HOSTILE}) + "\n")
    with answering(Answer(), models("m")) as server:
        result = invoke("--url", server.url, "--input-file", str(prompts), "--artifact-dir", str(tmp_path / "run"))
        (body,) = [body for method, _, _, body in server.asked if method == "POST"]
    assert result.exit_code == 0
    assert harmless(result.stdout)
    assert body["messages"][0]["content"] == HOSTILE, "what is sent is what the file says"
    record = json.loads((tmp_path / "run" / "profile_export.jsonl").read_text())
    assert record["metadata"]["source_kind"] == HOSTILE
    for row in (tmp_path / "run" / "profile_export_aiperf.csv").read_text().splitlines():
        assert not row.startswith(("=", "+", "-", "@", "\t"))


SECRETS = {
    "key": "sk-live-0123456789",
    "cookie": "tasty-cookie-value",
    "header": "azure-api-key-value",
    "password": 'pass"word/with odd',
}


USAGE = {"usage": OK["usage"]}


def echo(headers: dict[str, str]) -> Answer:
    """Answer as servers do that repeat what they were sent."""
    everything = json.dumps(headers)
    body = {**OK, "choices": [{"message": {"content": f"you sent {everything}"}, "finish_reason": "stop"}]}
    if headers.get("X-Case", headers.get("x-case")) == "error":
        return Answer({"error": {"message": f"bad key in {everything}"}}, 401, {"x-echo": "1"})
    return Answer(body, headers={"set-cookie": "tasty=cookie"})


@pytest.mark.parametrize("case", ["error", "ok"])
@pytest.mark.parametrize("with_key", [True, False])
def test_no_secret_leaves_the_run(case: str, with_key: bool, tmp_path: Path) -> None:
    out = tmp_path / "run"
    key = ("--api-key", SECRETS["key"]) if with_key else ()
    with answering(echo) as server:
        url = server.url.replace("://", "://user:pass%22word%2Fwith%20odd@")
        result = invoke(
            *("--url", url, "--model", "m", "--request-count", "2", "--export-level", "raw", *key),
            *("-H", f"Cookie: {SECRETS['cookie']}", "-H", f"api-key: {SECRETS['header']}", "-H", f"X-Case: {case}"),
            *("--artifact-dir", str(out), "--max-tokens", "5"),
        )
        sent = [
            {k.lower(): v for k, v in headers.items()} for method, _, headers, _ in server.asked if method == "POST"
        ]
    basic = base64.b64encode(f"user:{SECRETS['password']}".encode()).decode()
    assert {headers["authorization"] for headers in sent} == {
        f"Bearer {SECRETS['key']}" if with_key else f"Basic {basic}"
    }
    assert {headers["cookie"] for headers in sent} == {SECRETS["cookie"]}, "a server's cookie is not sent back"
    assert result.exit_code == (1 if case == "error" else 0)
    written = result.output + "".join(path.read_text() for path in out.iterdir())
    spellings = [*SECRETS.values(), basic, json.dumps(SECRETS["password"])[1:-1], "pass%22word"]
    assert [secret for secret in spellings if secret in written] == []
    assert ("you sent" if case == "ok" else "bad key") in written


@pytest.mark.parametrize("case", ["ok", "text", "redirect", "missing"])
def test_no_part_of_a_query_or_of_a_body_leaves_the_run(case: str, tmp_path: Path) -> None:
    key, field, out = "qu/ery-key-0123456789", "body-key-0123456789", tmp_path / "run"
    asked = f"/v1/chat/completions?code={quote(key, safe='')}"
    answers = {
        "ok": Answer({"choices": [{"message": {"content": f"{key} {field}"}, "finish_reason": "stop"}], **USAGE}),
        # No JSON: its first characters are shown, and the cut goes through the key.
        "text": Answer(f"{'no such path: ' * 11}{asked} {field}".encode()),
        "redirect": Answer(b"", 307, {"location": asked}),
        "missing": Answer(f"no such path: {asked} {field}".encode(), 404),
    }
    with answering(answers[case], models(f"m {key}", owner=f"vllm {field}")) as server:
        result = invoke(
            *("--url", f"{server.url}?code={quote(key, safe='')}", "--request-count", "2", "--export-level", "raw"),
            *("--extra-inputs", json.dumps({"lora": {"api_key": field}}), "--artifact-dir", str(out)),
        )
        sent = [(path, body) for method, path, _, body in server.asked if method == "POST"]
    assert sent[0][0] == asked
    assert sent[0][1]["lora"] == {"api_key": field}
    assert sent[0][1]["model"] == f"m {key}", "what is sent is what the server listed"
    assert result.exit_code == (0 if case == "ok" else 1)
    written = result.output + "".join(path.read_text() for path in out.iterdir())
    for secret in (key, quote(key, safe=""), field):
        assert secret[:8] not in written
    config = (out / "config.yaml").read_text()
    assert "code=${SPEC_PROFILE_QUERY_CODE}" in config
    assert "api_key: ${SPEC_PROFILE_EXTRA_LORA_API_KEY}" in config


TWICE = [{"reasoning_content": "sk-live-"}, {"reasoning": "sk-live-"}]


@pytest.mark.parametrize(
    ("deltas", "shown"),
    [
        (
            [{"content": piece} for piece in ("it ", "is ", "sk-live-", "01234", "56789!", " yes")],
            f"it is {'#' * 3} yes",
        ),
        ([{"content": letter} for letter in "(sk-live-0123456789)"], f"({'#' * 18})"),
        ([{"reasoning": "mine is sk-live-"}, {"content": "0123456789"}, {"content": "."}], "#."),
        ([{"content": "sk-live-0123456789, sk-live-012"}, {"content": "3456789"}, {"content": "."}], "##."),
        ([*TWICE, {"reasoning_content": "0123456789"}, {"reasoning": "0123456789"}, {"content": "."}], "##."),
    ],
    ids=["pieces", "letters", "reasoning", "again", "two keys"],
)
def test_a_key_that_comes_in_pieces_is_in_no_text(deltas: list[dict[str, str]], shown: str, tmp_path: Path) -> None:
    key, out = "sk-live-0123456789", tmp_path / "run"
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], **USAGE}]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    values = {"model": "m", "api_key": key, "export_level": "raw", "artifact_dir": out}
    with answering(Answer(body.encode(), headers={"content-type": "text/event-stream"})) as server:
        profile(ProfileConfig.create(url=server.url, **values))
    assert load_answers(out, {0})[0].answer == shown.replace("#", REDACTED)


def test_a_list_of_models_that_echoes_a_key(tmp_path: Path) -> None:
    two = {"data": [{"id": "one sk-live-0123456789"}, {"id": "two"}]}
    with answering(Answer(), two) as server:
        result = invoke("--url", f"{server.url}?k=sk-live-0123456789", "--artifact-dir", str(tmp_path / "run"))
    assert result.exit_code == 2
    assert "lists 2 models" in result.output
    assert "0123456789" not in result.output


def test_a_dry_run_and_errors_keep_secrets_too() -> None:
    secret = SECRETS["key"]
    for inputs in (f'{{"api_key": "{secret}"', f"api_key:[{secret}", f"token:x,{secret}"):
        refused = invoke("--url", "h", "--extra-inputs", inputs)
        assert refused.exit_code == 2
        assert secret not in refused.output
    assert secret not in invoke("--url", "h", "--model", "m", "--dry-run", "--extra-inputs", f"key:{secret}").output
    for wrong in (f"ftp://h?api_key={secret}", f"http://h:x?api_key={secret}", f"http://h?api_key=a@{secret}:x"):
        assert secret not in invoke("--url", wrong).output
    dry = invoke("--url", f"http://u:{secret}@h/?api_key={secret}", "--model", "m", "--dry-run", "--api-key", secret)
    assert dry.exit_code == 0
    assert secret not in dry.output
    bad = invoke("--url", f"ftp://u:{secret}@h", "--api-key", secret)
    assert bad.exit_code == 2
    assert secret not in bad.output
    header = invoke("--url", "h", "-H", f"Bad Name {secret}")
    assert header.exit_code == 2
    assert secret not in header.output
    config = ProfileConfig(url=f"http://u:{secret}@h", api_key=secret, headers=(("x-key", secret),))
    assert secret not in repr(config)
    assert secret not in config.model_dump_json(exclude={"url", "headers"})
    with pytest.raises(ValueError, match="concurrency") as caught:
        ProfileConfig(url=f"http://u:{secret}@h", api_key=secret, concurrency=0)
    assert secret not in str(caught.value)


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    with answering(Answer()) as elsewhere:
        redirect = Answer(b"", status=307, headers={"location": f"{elsewhere.url}/v1/chat/completions"})
        with answering(redirect) as server:
            arguments = ("--url", server.url, "--model", "m", "--request-count", "1")
            result = invoke(*arguments, "--artifact-dir", str(tmp_path / "run"))
        assert elsewhere.asked == []
    assert result.exit_code == 1
    assert "redirects are not followed" in " ".join(result.stdout.split())


def test_certificates_are_checked_unless_told_otherwise(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    with answering(Answer(), tls=context) as server:

        def run(name: str, *more: str) -> Result:
            arguments = ("--url", server.url, "--model", "m", "--request-count", "1", *more)
            return invoke(*arguments, "--artifact-dir", str(tmp_path / name))

        refused = run("refused")
        assert refused.exit_code == 1
        assert "TLS failed" in refused.stdout
        trusted = run("trusted", "--ca-file", str(TLS / "cert.pem"))
        assert trusted.exit_code == 0
        assert "certificates were not verified" not in trusted.stderr
        unchecked = run("unchecked", "--insecure")
        assert unchecked.exit_code == 0
        assert "certificates were not verified" in unchecked.stderr
        for path, said in ((TLS / "missing.pem", "No such file"), (Path(__file__), "no PEM certificates")):
            wrong = run("wrong", "--ca-file", str(path))
            assert wrong.exit_code == 2
            assert said in wrong.stderr
            assert path.name in wrong.stderr
