"""Put the image files that rows name into the rows, as data: URLs."""

import base64
import re
from pathlib import Path
from typing import Any

from aiperf_spec.workload.row_settings import RowFaultError

MAX_IMAGE = 20 << 20
"""Bytes of one image."""
_MAX_HELD = 256 << 20
"""Characters of all data: URLs of a file of prompts; they are held, for a run sends a prompt many times."""
_URL = re.compile(r"(https?|data):", re.I)
_KINDS = (
    ("png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("jpeg", re.compile(rb"\xff\xd8\xff")),
    ("gif", re.compile(rb"GIF8[79]a")),
    ("webp", re.compile(rb"RIFF.{4}WEBP", re.S)),
    ("bmp", re.compile(rb"BM.{4}\0{4}", re.S)),
    ("tiff", re.compile(rb"II\*\0|MM\0\*")),
    ("avif", re.compile(rb".{4}ftypavi[fs]", re.S)),
    ("heic", re.compile(rb".{4}ftyp(heic|heix|mif1)", re.S)),
)
"""How files begin. A name may say something else, and a server believes what the URL says."""


class LocalImages:
    """The images that the rows of one file name by paths, which are taken from the `folder` of that file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._urls: dict[str, str] = {}
        self._held = 0

    def put_into(self, row: Any) -> Any:
        """Return the row with data: URLs for the paths under `image` and `images`, in its turns too.

        Raises `RowFaultError` for a file that cannot be read, is too large or is no image.
        """
        if not isinstance(row, dict):
            return row
        row = self._in_place(row)
        if isinstance(turns := row.get("turns"), list):
            row = {**row, "turns": [self._in_place(turn) if isinstance(turn, dict) else turn for turn in turns]}
        return row

    def _in_place(self, holder: dict[str, Any]) -> dict[str, Any]:
        found = {key: self._urls_of(holder[key]) for key in ("image", "images") if holder.get(key)}
        return {**holder, **found} if found else holder

    def _urls_of(self, given: Any) -> Any:
        if isinstance(given, list):
            return [self._urls_of(each) for each in given]
        return given if not isinstance(given, str) or _URL.match(given) else self._url(given)

    def _url(self, name: str) -> str:
        if (known := self._urls.get(name)) is not None:
            return known
        try:
            path = self._folder / name.removeprefix("file://")
            if path.exists() and not path.is_file():
                raise RowFaultError(f"image {name!r} is no file")
            with path.open("rb") as file:
                data = file.read(MAX_IMAGE + 1)
        except (OSError, ValueError) as error:
            if isinstance(error, RowFaultError):
                raise
            raise RowFaultError(f"image {name!r}: {getattr(error, 'strerror', None) or error}") from None
        if len(data) > MAX_IMAGE:
            raise RowFaultError(f"image {name!r} is larger than {MAX_IMAGE >> 20} MiB")
        kind = next((kind for kind, begins in _KINDS if begins.match(data)), None)
        if kind is None:
            raise RowFaultError(f"image {name!r} is none of {', '.join(kind for kind, _ in _KINDS)}")
        url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
        self._held += len(url)
        if self._held > _MAX_HELD:
            raise RowFaultError(
                f"image {name!r}: all images of this file together are larger than {_MAX_HELD >> 20} MiB"
            )
        self._urls[name] = url
        return url
