"""Word notices: what happened, and what to do about it."""

from typing import Any

from aiperf_spec.adapters.description import recognised
from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.models.run import ONE_TOKEN, Notice, NoticeKind
from aiperf_spec.render.text import plural
from aiperf_spec.render.words import worded

ASK_DIRECTLY = "a proxy in between may strip fields that it does not know: ask the engine directly"

_FROM_COUNTERS = (
    ". Length and rate come from the server's counters instead, which hold all of its traffic; gates use them with "
    "--source server-metrics"
)


def notice_text(notice: Notice) -> str:
    """Return a notice as text of one or a few lines, without markup."""
    values = notice.values
    if notice.kind in (NoticeKind.MAX_TOKENS_REFUSED, NoticeKind.MAX_TOKENS_IGNORED):
        legacy = values["sent"] == "max_tokens"
        do, other = ("leave out", "max_completion_tokens") if legacy else ("add", "max_tokens")
        values = {**values, "remedy": f"{do} --use-legacy-max-tokens, to send {other}"}
    elif notice.kind is NoticeKind.PROPOSED_NOT_COUNTED:
        reason = (
            "changes the length of its drafts as it runs" if values["adaptive"] else "does not keep to its settings"
        )
        values = {**values, "reason": reason}
    elif notice.kind is NoticeKind.CACHED_REPEATS:
        whose = "their prompt tokens, by usage" if values["by_usage"] else "all prompt tokens, by its counters"
        values = {**values, "whose": whose}
    elif notice.kind is NoticeKind.BASELINE_MISLEADS:
        values = {"text": worded("mismatch", values["mismatch"], values)}
    elif notice.kind is NoticeKind.SATURATED:
        values = {**values, "more_workers": values["workers"] * 2}
    elif notice.kind is NoticeKind.CONNECTING:
        moved = values["moved"].items()
        moves = (f"its {name} is {ours:.1f} ms, {less:.1f} ms without" for name, (ours, less) in moved)
        values = {**values, "moves": ", ".join(moves)}
    elif notice.kind is NoticeKind.NO_ACCEPTANCE:
        values = {**values, "instead": _FROM_COUNTERS if values.get("counted") else ""}
    elif notice.kind is NoticeKind.SILENT:
        values = {**values, "why": "; ".join(_silences(values))}
    elif notice.kind is NoticeKind.TOTALS_ONLY:
        values = {**values, "remedy": _totals_remedy(values)}
    text = worded("notice", notice.kind, values)
    return "\n".join([text, *_no_acceptance(values)]) if notice.kind is NoticeKind.NO_ACCEPTANCE else text


def _totals_remedy(values: dict[str, Any]) -> str:
    engine = known_engines().get(values["engine"])
    if engine is None or not engine.request_inputs:
        return "The engine does not report more"
    if not values["streaming"]:
        return f"{engine.name} reports steps in streams: leave --no-streaming out, and add {engine.inputs_option}"
    if values["asked"]:
        return "Some of their tokens came without text, and steps may hide behind them"
    return f"To have them, {engine.how_to_report}"


def _silences(values: dict[str, Any]) -> list[str]:
    """Return why requests say nothing even where all is switched on, with how many do, in clauses."""
    engines, found = known_engines(), []
    chosen = [engines[values["engine"]]] if values.get("engine") in engines else list(engines.values())
    for reason, n in dict(values.get("silent", {})).items():
        if reason == ONE_TOKEN:
            found.append(f"{plural(n, 'answer')} of one token, for which no verify step runs (raise --max-tokens)")
        found += [
            f"{plural(n, 'request')} {engine.silent_for[reason]}, for which {engine.name} reports nothing"
            for engine in chosen
            if reason in engine.silent_for
        ]
    return found


def _no_acceptance(values: dict[str, Any]) -> list[str]:
    lines, engines = [f"- {each}" for each in _silences(values)], known_engines()
    silent = sum(dict(values.get("silent", {})).values())
    if silent and silent == values["of"]:
        return lines
    if values["usage_off"]:
        lines += [
            f"- stream_options.include_usage is off, and {engine.name} reports on the usage chunk: leave it on"
            for engine in engines.values()
            if engine.reports_on_usage_chunk
        ]
    named = recognised(values["owned_by"], engines) or str(values.get("engine"))
    for name in [named] if named in engines else engines:
        if values.get(f"asked_{name}"):
            if not values.get("speculates"):
                lines.append(f"- {engines[name].name} was asked, so its server runs without speculative decoding")
        elif (hint := engines[name].how_to_report) is not None:
            lines.append(f"- {hint}")
    return [*lines, f"- {ASK_DIRECTLY}"]
