"""The records of a run without speculation, against which speed is measured."""

from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import RequestRecord


def load_baseline(settings: ReportSettings) -> list[RequestRecord] | None:
    """Return the records of `--baseline`, None where there is none; raise `ConfigError` where that run speculated."""
    if settings.baseline is None:
        return None
    from aiperf_spec.artifacts.read.records import load_records

    records = list(load_records(settings.baseline).records)
    if any(record.acceptance is not None for record in records):
        raise ConfigError(
            f"--baseline {str(settings.baseline)!r} is a run with speculation: its requests report acceptance",
            "name a run of the same server without speculation; --base is for gates that compare two such runs",
        )
    return records
