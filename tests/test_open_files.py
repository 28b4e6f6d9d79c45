"""The limit of open files, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError
from aiperf_spec.load.open_files import allow_connections
soft, hard, values = eval(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    allow_connections(ProfileConfig(url="h", **values))
except ConfigError as error:
    print(error.message)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "values", "expected"),
    [
        (64, 1000, {"concurrency": 100}, "164"),
        (300, 1000, {"concurrency": 100}, "300"),
        (64, 128, {"concurrency": 100, "request_count": 20}, "84"),
        (64, 900, {"request_rate": 5.0}, "900"),
        (
            64,
            128,
            {"concurrency": 100},
            "--concurrency 100 needs 164 open files, and this system allows 128 (ulimit -n)\n128",
        ),
    ],
)
def test_the_limit_is_raised_or_named(soft: int, hard: int, values: dict[str, object], expected: str) -> None:
    argument = repr((soft, hard, values))
    done = subprocess.run([sys.executable, "-c", SCRIPT, argument], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
