"""The values that some options choose from."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Self


class EndpointType(StrEnum):
    """The API that requests go to."""

    CHAT = "chat"
    COMPLETIONS = "completions"


class ExportLevel(StrEnum):
    """How much of a run is written: the summary, a line a request too, or every event too."""

    SUMMARY = "summary"
    RECORDS = "records"
    RAW = "raw"


class Ui(StrEnum):
    """How a run is shown while it goes on."""

    AUTO = "auto"
    """Live on a terminal, lines elsewhere."""
    LIVE = "live"
    SIMPLE = "simple"
    """A line every 10 s."""
    NONE = "none"


class SamplingStrategy(StrEnum):
    """In which order prompts are sent: as they stand, shuffled once a pass, or drawn at random."""

    SEQUENTIAL = "sequential"
    SHUFFLE = "shuffle"
    RANDOM = "random"


class DatasetType(StrEnum):
    """The shape of the rows of a prompt file; `auto` looks at the first ones."""

    AUTO = "auto"
    SINGLE_TURN = "single_turn"
    MULTI_TURN = "multi_turn"
    RANDOM_POOL = "random_pool"
    SPEED_BENCH = "speed_bench"
    SPEC_BENCH = "spec_bench"
    MT_BENCH = "mt_bench"
    SHAREGPT = "sharegpt"
    RAW_PAYLOAD = "raw_payload"


@dataclass(slots=True, frozen=True)
class DatasetSelector:
    """What `--custom-dataset-type` says: a shape, and of SPEED-Bench perhaps a subset and a category."""

    name: str
    type: DatasetType
    subset: str | None = None
    category: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a type or one of AIPerf's SPEED-Bench selectors, in kebab or snake spelling.

        `speed_bench_coding` is the category of the qualitative subset, `speed_bench_throughput_1k_mixed` one of a
        throughput subset. Raises `ValueError` with the nearest name.
        """
        name = text.strip().lower().replace("-", "_")
        known = [str(kind) for kind in DatasetType]
        if name in known:
            return cls(name, DatasetType(name))
        rest = name.removeprefix("speed_bench_")
        if rest == name or not rest:
            near = get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(f"expected {', '.join(known)} or speed_bench_CATEGORY, got {text!r}{hint}")
        if rest == "qualitative":
            return cls(name, DatasetType.SPEED_BENCH, rest)
        if throughput := re.fullmatch(r"(throughput_\d+k)(?:_(.+))?", rest):
            return cls(name, DatasetType.SPEED_BENCH, throughput[1], throughput[2])
        return cls(name, DatasetType.SPEED_BENCH, "qualitative", rest)


class ArrivalPattern(StrEnum):
    """How requests are spaced under `--request-rate`."""

    POISSON = "poisson"
    CONSTANT = "constant"


class TableFormat(StrEnum):
    """How a comparison is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class ReportMetric(StrEnum):
    """What the matrix of `report` makes of sums: the pooled length, the pooled rate in percent, or tokens a second."""

    ACCEPT_LENGTH = "accept_length"
    ACCEPT_RATE = "accept_rate"
    THROUGHPUT = "throughput"


class ReportSource(StrEnum):
    """Where `report` takes figures from, the best source first; `server` is AIPerf's word for `server-metrics`."""

    AUTO = "auto"
    RECORDS = "records"
    SUMMARY = "summary"
    SERVER_METRICS = "server-metrics"
    SERVER = "server"

    @property
    def is_server(self) -> bool:
        """Whether it is the server's own counters, by either name."""
        return self in (ReportSource.SERVER_METRICS, ReportSource.SERVER)


class ReportFormat(StrEnum):
    """How `report` prints."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"
