"""The values that some options choose from."""

from __future__ import annotations

from enum import StrEnum


class EndpointType(StrEnum):
    """The API that requests go to."""

    CHAT = "chat"
    COMPLETIONS = "completions"


class ExportLevel(StrEnum):
    """How much of a run is written: the summary, a line a request too, or every event too."""

    SUMMARY = "summary"
    RECORDS = "records"
    RAW = "raw"


class SamplingStrategy(StrEnum):
    """In which order prompts are sent: as they stand, shuffled once a pass, or drawn at random."""

    SEQUENTIAL = "sequential"
    SHUFFLE = "shuffle"
    RANDOM = "random"


class Engine(StrEnum):
    """Engines that the simulator imitates."""

    VLLM = "vllm"
    TENSORRT_LLM = "tensorrt_llm"
    SGLANG = "sglang"
