"""Counting tokens on our side; needs the extra `tokenizer`."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from aiperf_spec.errors import ConfigError
from aiperf_spec.load.tokenizer import load_counter
from tests.support import Simulate

tokenizers = pytest.importorskip("tokenizers")


def word_level(path: Path, *, letters: bool = False, limit: int | None = None) -> Path:
    """Write a tokenizer of words, or of single characters."""
    model = tokenizers.models.WordLevel(vocab={"[UNK]": 0}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    split = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = split.Split(tokenizers.Regex("."), "isolated") if letters else split.Whitespace()
    if limit is not None:
        tokenizer.enable_truncation(limit)
    path.parent.mkdir(exist_ok=True)
    tokenizer.save(str(path))
    return path


def test_a_file_and_a_folder(tmp_path: Path) -> None:
    file = word_level(tmp_path / "tokenizer.json")
    for name in (file, tmp_path):
        assert load_counter(str(name)).count("one two three", "", "four") == [3, 0, 1]


def test_the_limits_that_a_file_carries_do_not_count(tmp_path: Path) -> None:
    file = word_level(tmp_path / "tokenizer.json", limit=2)
    assert load_counter(str(file)).count("one two three") == [3]


@pytest.mark.parametrize(
    ("name", "said"),
    [("none.json", "no such file"), (".", "no such file"), ("bad.json", "not a tokenizer.json")],
)
def test_what_is_no_tokenizer(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ConfigError, match=said):
        load_counter(str(tmp_path / name))


def test_a_name_without_a_network_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> socket.socket:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(ConfigError) as caught:
        load_counter("no-such-organisation/no-such-model")
    assert "nor to be had from the hub (ConnectionRefusedError" in caught.value.message
    assert "\n" not in caught.value.message


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError) as caught:
        load_counter("x.json")
    assert "pip install -e '.[tokenizer]'" in (caught.value.remedy or "")


class TestPrecedence:
    @pytest.fixture
    def run(self, simulate: Simulate, tmp_path: Path) -> Any:
        prompts = tmp_path / "p.jsonl"
        prompts.write_text('{"text": "one two three"}\n')

        def run(*arguments: str) -> tuple[dict[str, Any], str]:
            always = ("--url", simulate("vllm").url, "--input-file", str(prompts), "--max-tokens", "30")
            result = CliRunner().invoke(app, [*always, "--artifact-dir", str(tmp_path / "run"), *arguments])
            assert result.exit_code == 0, result.output
            line = json.loads((tmp_path / "run" / "profile_export.jsonl").read_text())
            return line["metrics"], " ".join(result.output.split())

        return run

    def test_the_tokenizer_counts(self, run: Any, tmp_path: Path) -> None:
        tokenizer = str(word_level(tmp_path / "letters.json", letters=True))
        metrics, notes = run("--tokenizer", tokenizer)
        assert metrics["input_sequence_length"]["value"] == len("one two three")
        assert metrics["output_sequence_length"]["value"] > 60
        assert "note: output tokens of 1 request: --tokenizer counts" in notes
        assert "usage says 30." in notes
        assert "tokens counted by --tokenizer" in notes

    def test_usage_counts_where_it_is_asked_for(self, run: Any, tmp_path: Path) -> None:
        tokenizer = str(word_level(tmp_path / "letters.json", letters=True))
        metrics, notes = run("--tokenizer", tokenizer, "--use-server-token-count")
        assert metrics["output_sequence_length"]["value"] == 30
        assert "--tokenizer counts" in notes

    def test_the_tokenizer_counts_where_usage_is_off(self, run: Any, tmp_path: Path) -> None:
        off = ("--extra-inputs", '{"stream_options": {"include_usage": false}}')
        metrics, notes = run("--tokenizer", str(word_level(tmp_path / "words.json")), *off)
        assert metrics["input_sequence_length"]["value"] == 3
        assert metrics["output_sequence_length"]["value"] > 0
        assert "came without usage" not in notes
        assert "--tokenizer counts" not in notes

    def test_without_either_the_table_says_so(self, run: Any) -> None:
        metrics, notes = run()
        assert metrics["output_sequence_length"]["value"] == 30
        assert "tokens counted by the server" in notes
