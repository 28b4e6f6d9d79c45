"""Images in files, as rows name them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import InputFileError
from aiperf_spec.workload import images
from aiperf_spec.workload.dataset import open_workload
from aiperf_spec.workload.images import LocalImages
from aiperf_spec.workload.row_settings import RowFaultError

BYTES = {
    "png": b"\x89PNG\r\n\x1a\n rest",
    "jpeg": b"\xff\xd8\xff\xe0 rest",
    "gif": b"GIF89a rest",
    "webp": b"RIFF\n\r\0\0WEBPVP8 rest",
    "bmp": b"BM\n\0\0\0\0\0\0\0rest",
    "tiff": b"II*\0 rest",
    "avif": b"\0\0\0\x20ftypavif rest",
    "heic": b"\0\0\0\x20ftypheic rest",
}


def url(kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(BYTES[kind]).decode()}"


@pytest.mark.parametrize("kind", BYTES)
def test_the_type_is_that_of_the_bytes(kind: str, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(BYTES[kind])
    assert LocalImages(tmp_path).put_into({"image": "picture.png"}) == {"image": url(kind)}


def test_paths_among_urls_in_rows_and_turns(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.gif").write_bytes(BYTES["gif"])
    (tmp_path / "b.jpg").write_bytes(BYTES["jpeg"])
    kept = ["http://h/x.png", "HTTPS://h/y", "data:image/png;base64,"]
    found = LocalImages(tmp_path / "in").put_into(
        {
            "text": "a",
            "images": [*kept, "a.gif", "../b.jpg", f"file://{tmp_path}/b.jpg", 7],
            "turns": [{"image": "a.gif"}, "b"],
        }
    )
    assert found["images"] == [*kept, url("gif"), url("jpeg"), url("jpeg"), 7]
    assert found["turns"] == [{"image": url("gif")}, "b"]


@pytest.mark.parametrize("row", [{"text": "a"}, {"text": "a", "image": None}, {"turns": 3}, "text", None])
def test_a_row_without_an_image_stays(row: Any, tmp_path: Path) -> None:
    assert LocalImages(tmp_path).put_into(row) == row


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing.png", "image 'missing.png': No such file or directory"),
        (".", "image '.' is no file"),
        ("fifo", "image 'fifo' is no file"),
        ("text.png", "image 'text.png' is none of png, jpeg"),
        ("empty.png", "image 'empty.png' is none of png, jpeg"),
        ("large.png", "image 'large.png' is larger than 20 MiB"),
        ("a\0b", "image 'a\\x00b': embedded null"),
    ],
)
def test_what_cannot_be_sent_as_an_image(name: str, told: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty.png").touch()
    with (tmp_path / "large.png").open("wb") as file:
        file.write(BYTES["png"])
        file.truncate(images.MAX_IMAGE + 1)
    with pytest.raises(RowFaultError) as caught:
        LocalImages(tmp_path).put_into({"image": name})
    assert told in str(caught.value)


def test_all_images_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_MAX_HELD", 2 * len(url("png")))
    for name in "abc":
        (tmp_path / name).write_bytes(BYTES["png"])
    known = LocalImages(tmp_path)
    known.put_into({"images": ["a", "b", "a", "b"]})
    with pytest.raises(RowFaultError, match="all images of this file together"):
        known.put_into({"image": "c"})


def test_an_image_beside_the_file_of_prompts(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(BYTES["png"])
    file = tmp_path / "p.jsonl"
    file.write_text('{"text": "what?", "image": "cat.png"}\n{"text": "and this?", "image": "dog.png"}\n')
    with pytest.raises(InputFileError, match=r"line 2: image 'dog.png': No such file"):
        open_workload(ProfileConfig(url="h", input_file=file))
    [prompt] = open_workload(ProfileConfig(url="h", input_file=file, skip_bad_lines=True)).once()
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": url("png")}}]
    assert prompt.as_messages() == [{"role": "user", "content": parts}]
