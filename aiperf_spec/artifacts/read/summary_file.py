"""What `profile_export_aiperf.json` holds, ours or AIPerf's, as models, and the figures that a run's tables show of it.

A value of a wrong type is as if it were not there, and costs no more than itself. Only what is read back stands here;
everything else in the file is ignored.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
)
from pydantic import ValidatorFunctionWrapHandler as Handler

from aiperf_spec.config.several_clients import Share
from aiperf_spec.config.tags import tag_problem
from aiperf_spec.metrics.pooled import PooledAcceptance
from aiperf_spec.metrics.stats import PERCENTILES, STAT_NAMES, Stats
from aiperf_spec.metrics.summary import CategorySummary, ErrorGroup, Summary
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.clients import ClockOffset
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.models.server_metrics import Reconciliation

T = TypeVar("T")
_RECONCILIATION = TypeAdapter(Reconciliation)
_DRAFTER = TypeAdapter(ServerDrafter)
_CLOCK = TypeAdapter(ClockOffset)


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


def _at(section: str, *path: str | int, default: Any = None) -> Any:
    # A field whose value stands at this path of the file.
    return Field(default, validation_alias=AliasPath(section, *path))


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
    type: str | None = None
    concurrency: Count | None = None
    requests: Count | None = None
    rate: Number | None = None


class Category(Tolerant):
    """Acceptance of one category."""

    requests: Number | None = None
    with_acceptance: Number | None = None
    steps: Number | None = None
    draft_tokens: Number | None = None
    accepted_draft_tokens: Number | None = None
    acceptance_length: Number | None = None
    acceptance_histogram: dict[str, Maybe[Number]] = {}


class ErrorCount(Tolerant):
    """How many requests failed alike, and how."""

    type: str | None = _at("error_details", "type")
    message: str | None = _at("error_details", "message")
    code: int | None = _at("error_details", "code")
    count: Number | None = None


def _made(adapter: TypeAdapter[T], found: Any) -> T | None:
    try:
        # As JSON, from which even a strict reading makes dataclasses.
        return adapter.validate_json(orjson.dumps(found), strict=True)
    except (TypeError, ValidationError):
        return None


def _share(found: Any) -> Share | None:
    return Share.parse(found) if isinstance(found, str) else None


def _tags(found: Any) -> dict[str, str]:
    given = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in given if isinstance(value, str) and tag_problem(name, value) is None}


def _reconciled(found: Any) -> Reconciliation | None:
    reconciliation = _made(_RECONCILIATION, found)
    return reconciliation if reconciliation is not None and reconciliation.counts else None


class SummaryFile(Tolerant):
    """The file. Metrics are by their tags at the top, each with its statistics by name: `metric` finds them."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Maybe[dict[str, Maybe[Number]]]] = Field(init=False)

    benchmark_id: str = ""
    start_time: str = ""
    """Of the first request, in UTC, in ISO 8601."""
    models: list[Maybe[dict[str, Maybe[str]]]] = _at("input_config", "models", "items", default=[])
    model_names: list[Maybe[str]] = _at("input_config", "endpoint", "model_names", default=[])
    """AIPerf's before its second configuration format, as the two that follow."""
    custom_dataset_type: str | None = _at("input_config", "input", "custom_dataset_type")
    public_dataset: str | None = _at("input_config", "input", "public_dataset")
    endpoint_url: Text | None = _at("input_config", "endpoint", "urls", 0)
    endpoint_type: str | None = _at("input_config", "endpoint", "type")
    streaming: bool | None = _at("input_config", "endpoint", "streaming")
    use_server_token_count: bool = _at("input_config", "endpoint", "use_server_token_count", default=False)
    extra_inputs: dict[str, Any] | None = _at("input_config", "endpoint", "extra")
    datasets: list[Maybe[Dataset]] = _at("input_config", "datasets", default=[])
    slos: dict[str, Maybe[Number]] = _at("input_config", "slos", default={})
    """The limits of goodput by metric."""
    phases: list[Maybe[Phase]] = _at("input_config", "phases", default=[])
    server_url: Text | None = _at("spec_profile", "server", "url")
    server_owner: Text | None = _at("spec_profile", "server", "owned_by")
    server_version: Text | None = _at("spec_profile", "server", "version")
    engines: list[Text] = _at("spec_profile", "engines", default=[])
    """Adapters' names of those that reported acceptance."""
    draft_lengths: list[Count] = _at("spec_profile", "draft_lengths", default=[])
    drafter: Annotated[ServerDrafter | None, BeforeValidator(partial(_made, _DRAFTER))] = _at(
        "spec_profile", "server", "drafter"
    )
    prompts_type: Text | None = _at("spec_profile", "prompts", "type")
    prompts_turns: Count | None = _at("spec_profile", "prompts", "turns")
    prompt_file_hashes: list[Text] = _at("spec_profile", "prompts", "file_hashes", default=[])
    stopped_by: Text | None = _at("spec_profile", "stopped_by")
    share: Annotated[Share | None, BeforeValidator(_share)] = _at("spec_profile", "client", "share")
    clock: Annotated[ClockOffset | None, BeforeValidator(partial(_made, _CLOCK))] = _at(
        "spec_profile", "client", "clock"
    )
    tags: Annotated[dict[str, str], BeforeValidator(_tags)] = _at("spec_profile", "tags", default={})
    requests: dict[str, Maybe[Number]] = _at("spec_profile", "requests", default={})
    """How many requests ended how."""
    drop_reasons: dict[str, Maybe[Number]] = _at("spec_profile", "drop_reasons", default={})
    categories: dict[str, Maybe[Category]] = _at("spec_profile", "categories", default={})
    reconciliation: Annotated[Reconciliation | None, BeforeValidator(_reconciled)] = _at(
        "spec_profile", "reconciliation"
    )
    notices: list[Maybe[dict[str, Any]]] = _at("spec_profile", "notices", default=[])
    error_summary: list[Maybe[ErrorCount]] = []
    pooled_spec_decode_acceptance_histogram: dict[str, Maybe[Number]] = {}

    def metric(self, tag: str, stat: str = "avg") -> float | None:
        """Return one statistic of a metric; None where the file has none."""
        return (self.__pydantic_extra__.get(tag) or {}).get(stat)

    @property
    def model(self) -> str | None:
        """The name of the model that was asked."""
        names = [item.get("name") for item in self.models if item]
        return next((name for name in (*names, *self.model_names) if name), None)

    @property
    def dataset(self) -> Dataset:
        """The first set of prompts, or one of which nothing is known."""
        return (self.datasets[0] if self.datasets else None) or Dataset()

    @property
    def selectors(self) -> list[str]:
        """AIPerf's selectors of the prompts."""
        found = [dataset.format or dataset.dataset for dataset in self.datasets if dataset]
        return [selector for selector in (*found, self.custom_dataset_type, self.public_dataset) if selector]


def summary_of(file: SummaryFile) -> Summary:
    """Return the figures of the profiled phase as the summary file gives them; what it lacks is absent or zero."""
    values = {metric.tag: file.metric(metric.tag) for metric in RUN_METRICS}
    run_values = {tag: value for tag, value in values.items() if value is not None}
    stats = {metric.tag: _stats(file, metric.tag) for metric in RECORD_METRICS}
    return Summary(
        succeeded=_count(file.requests.get("succeeded"), run_values.get("request_count")),
        failed=_count(file.requests.get("failed"), run_values.get("error_request_count")),
        cancelled=_count(file.requests.get("cancelled")),
        record_stats={tag: described for tag, described in stats.items() if described is not None},
        run_values=run_values,
        acceptance=PooledAcceptance(
            requests=_count(file.requests.get("with_acceptance"), file.metric("spec_decode_steps", "count")),
            steps=_count(run_values.get("total_spec_decode_steps")),
            proposed=_count(run_values.get("total_draft_tokens")),
            accepted=_count(run_values.get("total_accepted_draft_tokens")),
            histogram=_histogram(file.pooled_spec_decode_acceptance_histogram),
            engines=set(file.engines),
            draft_lengths=set(file.draft_lengths),
        ),
        drop_reasons={
            reason: _count(file.drop_reasons[reason]) for reason in DropReason if reason in file.drop_reasons
        },
        categories={name: _category(found or Category()) for name, found in file.categories.items()},
        errors=[_error(found or ErrorCount()) for found in file.error_summary],
        objectives={name: limit for name, limit in file.slos.items() if limit is not None},
    )


def _count(*values: float | None) -> int:
    # The first of several places that says it.
    return next((round(value) for value in values if value is not None), 0)


def _stats(file: SummaryFile, tag: str) -> Stats | None:
    found = {name: file.metric(tag, name) for name in (*STAT_NAMES, "count")}
    known = {name: value for name, value in found.items() if value is not None}
    if len(known) < len(found):
        return None
    percentiles = {q: known.pop(f"p{q}") for q in PERCENTILES}
    return Stats(count=round(known.pop("count")), percentiles=percentiles, **known)


def _histogram(found: Mapping[str, float | None]) -> Counter[int]:
    known = {bucket: steps for bucket, steps in found.items() if bucket.isdecimal() and steps is not None}
    return Counter({int(bucket): round(steps) for bucket, steps in known.items()})


def _category(found: Category) -> CategorySummary:
    pooled = PooledAcceptance(
        requests=_count(found.with_acceptance),
        steps=_count(found.steps),
        proposed=_count(found.draft_tokens),
        accepted=_count(found.accepted_draft_tokens),
        histogram=_histogram(found.acceptance_histogram),
    )
    return CategorySummary(_count(found.requests), pooled, found.acceptance_length)


def _error(found: ErrorCount) -> ErrorGroup:
    message = found.message or found.type or ""
    return ErrorGroup(RequestError(ErrorKind.read(found.type), message, found.code), _count(found.count))
