"""Write a file whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from aiperf_spec.errors import ArtifactError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in the place of an earlier one; raise `OSError` where it cannot be, and leave that one as it was.

    It has a temporary name first, so that a reader never sees half of it. What stands under that name, such as a link,
    is not written to.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with open(new_file(temporary), "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def not_written(folder: Path, error: OSError) -> ArtifactError:
    """Return the error that names a folder of `--artifact-dir` which cannot be written."""
    return ArtifactError(
        f"--artifact-dir {str(folder)!r} cannot be written: {error.strerror or error}",
        "choose a folder that you may write to",
    )


def new_file(path: Path) -> int:
    """Return the descriptor of a new file: what stands in its place, such as a link, is not written to."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
