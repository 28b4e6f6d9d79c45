"""What `profile_export_aiperf.json` holds, ours or AIPerf's, as models.

A value of a wrong type is as if it were not there, and costs no more than itself. Only what is read back stands here;
everything else in the file is ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, WrapValidator, field_validator
from pydantic import ValidatorFunctionWrapHandler as Handler

from aiperf_spec.models.server_metrics import Agreement

T = TypeVar("T")


def _or_none(value: Any, handler: Handler) -> Any:
    try:
        return handler(value)
    except ValidationError:
        return None


Maybe = Annotated[T | None, WrapValidator(_or_none)]
"""An entry of a list or an object that is None where it is of a wrong type."""
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Tolerant(BaseModel):
    """A part of a file whose every field has its default where the file has none, or one of a wrong type."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_default(cls, value: Any, handler: Handler, info: ValidationInfo) -> Any:
        try:
            return handler(value)
        except ValidationError:
            return cls.model_fields[info.field_name or ""].get_default(call_default_factory=True)


class Endpoint(Tolerant):
    """What was asked, and how; `model_names` is AIPerf's before its second configuration format."""

    urls: list[Maybe[Text]] = []
    type: str | None = None
    streaming: bool | None = None
    use_server_token_count: bool = False
    extra: dict[str, Any] | None = None
    model_names: list[Maybe[str]] = []


class Dataset(Tolerant):
    """A set of prompts; AIPerf's selector is its `format`, or its `dataset`."""

    name: str | None = None
    path: str | None = None
    entries: Count | None = None
    format: str | None = None
    dataset: str | None = None


class Phase(Tolerant):
    """A phase of the load."""

    kind: str | None = None
    concurrency: Count | None = None
    requests: Count | None = None
    rate: Number | None = None


class InputConfig(Tolerant):
    """The configuration of the run."""

    models: dict[str, Maybe[list[Maybe[dict[str, Maybe[str]]]]]] = {}
    endpoint: Endpoint = Endpoint()
    datasets: list[Maybe[Dataset]] = []
    phases: list[Maybe[Phase]] = []
    input: dict[str, Maybe[str]] = {}
    """Where AIPerf had its dataset selectors before its second configuration format."""


class Prompts(Tolerant):
    """The prompts that were sent."""

    type: Text | None = None
    turns: Count | None = None


class Category(Tolerant):
    """Acceptance of one category."""

    requests: Number | None = None
    with_acceptance: Number | None = None
    steps: Number | None = None
    draft_tokens: Number | None = None
    accepted_draft_tokens: Number | None = None
    acceptance_length: Number | None = None
    acceptance_histogram: dict[str, Maybe[Number]] = {}


class CountOfBoth(BaseModel):
    """One count as the requests and as the server have it; `server` is None where its counter was reset."""

    model_config = ConfigDict(strict=True)

    name: str
    metric: str
    requests: int
    server: int | None


class Reconciled(Tolerant):
    """The requests' figures beside the server's counters."""

    agreement: Annotated[Agreement | None, Field(strict=False)] = None
    counts: list[Maybe[CountOfBoth]] = []
    requests_reported: int | None = None
    requests_silent: dict[str, int] | None = None
    server_requests: int | None = None
    settled: bool | None = None


class OwnPart(Tolerant):
    """What this program adds to AIPerf's keys."""

    server: dict[str, Maybe[Text]] = {}
    prompts: Prompts = Prompts()
    stopped_by: Text | None = None
    requests: dict[str, Maybe[Number]] = {}
    """How many requests ended how."""
    drop_reasons: dict[str, Maybe[Number]] = {}
    categories: dict[str, Maybe[Category]] = {}
    reconciliation: Reconciled = Reconciled()
    notices: list[Maybe[dict[str, Any]]] = []


class ErrorDetails(Tolerant):
    """How a request failed."""

    type: str | None = None
    message: str | None = None
    code: int | None = None


class ErrorCount(Tolerant):
    """How many requests failed alike."""

    error_details: ErrorDetails = ErrorDetails()
    count: Number | None = None


class SummaryFile(Tolerant):
    """The file. Metrics are by their tags at the top, each with its statistics by name: `metric` finds them."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Maybe[dict[str, Maybe[Number]]]] = Field(init=False)

    benchmark_id: str = ""
    input_config: InputConfig = InputConfig()
    spec_profile: OwnPart = OwnPart()
    error_summary: list[Maybe[ErrorCount]] = []
    pooled_spec_decode_acceptance_histogram: dict[str, Maybe[Number]] = {}

    def metric(self, tag: str, stat: str = "avg") -> float | None:
        """Return one statistic of a metric; None where the file has none."""
        return (self.__pydantic_extra__.get(tag) or {}).get(stat)

    @property
    def model(self) -> str | None:
        """The name of the model that was asked."""
        names = [item.get("name") for item in self.input_config.models.get("items") or () if item]
        return next((name for name in (*names, *self.input_config.endpoint.model_names) if name), None)

    @property
    def selectors(self) -> list[str]:
        """AIPerf's selectors of the prompts."""
        found = [dataset.format or dataset.dataset for dataset in self.input_config.datasets if dataset]
        found += [self.input_config.input.get(key) for key in ("custom_dataset_type", "public_dataset")]
        return [selector for selector in found if selector]
