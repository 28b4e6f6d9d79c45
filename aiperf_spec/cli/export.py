"""Write one run's acceptance in the form in which another program takes it."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from rich.text import Text

from aiperf_spec.adapters.acceptance_forms import FORMS, AcceptanceForm, Holds, Measured
from aiperf_spec.analysis.answer import setup_of
from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.measured_acceptance import MeasuredAcceptance, measured_acceptance
from aiperf_spec.analysis.report import analyse
from aiperf_spec.artifacts.read.clients import check_clients
from aiperf_spec.artifacts.read.folders import RunFolder, find_runs
from aiperf_spec.artifacts.read.run import LoadedRun, load_run
from aiperf_spec.artifacts.write.markdown_summary import markdown_summary
from aiperf_spec.artifacts.write.openmetrics import openmetrics
from aiperf_spec.cli.terminal import note, show_document, stderr, translated_errors, write_file
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ConfigError, ExitCode, SpecProfileError
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.render.answer import setup_parts
from aiperf_spec.render.export import export_notes
from aiperf_spec.render.missing import MENDED_BY_CHAIN, explained
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.text import plural, printable

_METRICS, _MARKDOWN = "openmetrics", "markdown"
_KNOWN = (*FORMS, _METRICS, _MARKDOWN)


class NothingToExportError(SpecProfileError):
    """Say that the run does not hold what was asked for, or that it would mislead."""

    exit_code = ExitCode.NO_SUCCESS


def export(path: Path, *, to: str, category: str | None, assume_chain: bool, output: Path | None) -> None:
    """Print a run in a form, or write it to a file; what the form cannot say of its figures goes to stderr."""
    with translated_errors():
        if to not in _KNOWN:
            near = get_close_matches(to, _KNOWN, n=1)
            raise ConfigError(
                f"--to {to!r}: known are {', '.join(_KNOWN)}", f"did you mean {near[0]}?" if near else None
            )
        folders = find_runs([path])
        loaded = _load(path, folders)
        records = _of_category(measured(loaded.result.records), category)
        if not any(record.acceptance and record.acceptance.num_spec_steps for record in records):
            raise NothingToExportError(
                f"{str(path)!r}: no successful request reported a verify step",
                "run `spec-profile doctor` to see why the server reports none",
            )
        if to in FORMS:
            text = _in_form(FORMS[to], path, loaded, records, category, assume_chain=assume_chain)
        else:
            text = _whole(to, loaded, records, category, assume_chain=assume_chain)
        if output is not None:
            write_file("--output", output, text)
        else:
            show_document(text, is_json=False)


def _load(path: Path, folders: Sequence[RunFolder]) -> LoadedRun:
    for folder in folders:
        if not folder.has_records:
            raise NothingToExportError(f"{str(folder.path)!r} has no records, which intervals need")
    if len(folders) > 1:
        notices = check_clients(folders)
        if folders[0].described.share is None:
            raise ConfigError(f"{str(path)!r} holds {plural(len(folders), 'run')}", "name the folder of one of them")
        for notice in notices:
            note(notice_text(notice))
    return load_run(folders)


def _of_category(records: list[RequestRecord], category: str | None) -> list[RequestRecord]:
    if category is None:
        return records
    found = [record for record in records if record.category == category]
    if not found:
        known = sorted({record.category for record in records if record.category is not None})
        there = f"there are {', '.join(printable(name, 60) for name in known)}" if known else "it has no categories"
        raise ConfigError(f"--category {category!r}: no successful request is of it", there)
    return found


def _in_form(
    form: AcceptanceForm,
    path: Path,
    loaded: LoadedRun,
    records: list[RequestRecord],
    category: str | None,
    *,
    assume_chain: bool,
) -> bytes:
    found = measured_acceptance(records, drafter=loaded.result.drafter, assume_chain=assume_chain)
    body = form.write(_measured(form, found))
    lines = export_notes(form, found, str(path), loaded.result.model, category)
    if form.comment is None:
        for line in lines:
            stderr().print(Text(line), soft_wrap=True)
        lines = []
    return "".join([*(f"{form.comment}{line}\n" for line in lines), body]).encode("utf-8", "replace")


def _measured(form: AcceptanceForm, found: MeasuredAcceptance) -> Measured:
    assert found.length.value is not None
    if form.holds is Holds.LENGTH:
        return Measured(found.length.value, found.k)
    if found.reason is not None:
        chain = "; --assume-chain exports them if you know that it drafts chains"
        raise NothingToExportError(
            f"{form.name} takes a rate for each position of a draft, and there is none: {explained(found.reason)}",
            f"export the acceptance length{chain if found.reason in MENDED_BY_CHAIN else ''}",
        )
    rates, conditional = (
        tuple(each.value or 0.0 for each in estimates) for estimates in (found.rates, found.conditional)
    )
    return Measured(found.length.value, found.k, rates, conditional)


def _whole(
    to: str, loaded: LoadedRun, records: list[RequestRecord], category: str | None, *, assume_chain: bool
) -> bytes:
    result, settings = loaded.result, ReportSettings(assume_chain=assume_chain)
    analysis = analyse(records, settings)
    if to == _METRICS:
        engines = sorted({record.acceptance.engine for record in records if record.acceptance})
        return openmetrics(analysis, model=result.model, engine=",".join(engines), category=category)
    of = [each for each in result.records if category is None or each.category == category]
    summary = loaded.summary() if category is None else summarise(of)
    setup = setup_parts(setup_of(result, summary))
    return markdown_summary(analysis, summary, title=result.model, setup=setup, category=category)
