"""Profile speculative decoding on OpenAI-compatible inference servers.

from aiperf_spec import ProfileConfig, profile

result = profile(ProfileConfig(url="http://127.0.0.1:8000", model="my-model", concurrency=4))
print(result.summary.acceptance.length)
"""

from __future__ import annotations

from aiperf_spec.version import __version__

# Importing `typing` would be the longest part of the time in which Ctrl-C is not the command's own yet.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from aiperf_spec.config.settings import ProfileConfig, ReportSettings
    from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
    from aiperf_spec.models.response import ParsedResponse
    from aiperf_spec.models.run import RequestRecord, RunResult
    from aiperf_spec.profiling import ProfileResult, profile, profile_async

_HOMES = {
    "DropReason": "aiperf_spec.models.acceptance",
    "ParsedResponse": "aiperf_spec.models.response",
    "ProfileConfig": "aiperf_spec.config.settings",
    "ReportSettings": "aiperf_spec.config.settings",
    "RequestRecord": "aiperf_spec.models.run",
    "RunResult": "aiperf_spec.models.run",
    "SpecDecodeAcceptanceRecord": "aiperf_spec.models.acceptance",
    "ProfileResult": "aiperf_spec.profiling",
    "profile": "aiperf_spec.profiling",
    "profile_async": "aiperf_spec.profiling",
}

__all__ = [
    "DropReason",
    "ParsedResponse",
    "ProfileConfig",
    "ProfileResult",
    "ReportSettings",
    "RequestRecord",
    "RunResult",
    "SpecDecodeAcceptanceRecord",
    "__version__",
    "profile",
    "profile_async",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # Imported where used: `spec-profile --help` must not pay for an HTTP client.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
