"""Word notices: what happened, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiperf_spec.adapters.description import recognised
from aiperf_spec.adapters.registry import known_engines
from aiperf_spec.models.run import Notice, NoticeKind
from aiperf_spec.render.text import plural, printable

ASK_DIRECTLY = "a proxy in between may strip fields that it does not know: ask the engine directly"


def notice_text(notice: Notice) -> str:
    """Return a notice as text of one or a few lines, without markup."""
    return _WORDINGS[notice.kind](notice.values)


def _no_acceptance(values: dict[str, Any]) -> str:
    lines = ["no response reported speculative-decoding acceptance. Why it may be so, and what to do:"]
    engines = known_engines()
    if values["usage_off"]:
        lines += [
            f"- stream_options.include_usage is off, and {engine.name} reports on the usage chunk: leave it on"
            for engine in engines.values()
            if engine.reports_on_usage_chunk
        ]
    named = recognised(values["owned_by"], engines)
    for name in [named] if named else engines:
        if values.get(f"asked_{name}"):
            lines.append(f"- {engines[name].name} was asked, so its server runs without speculative decoding")
        elif (hint := engines[name].how_to_report) is not None:
            lines.append(f"- {hint}")
    lines.append(f"- {ASK_DIRECTLY}")
    return "\n".join(lines)


_WORDINGS: dict[NoticeKind, Callable[[dict[str, Any]], str]] = {
    NoticeKind.NO_ACCEPTANCE: _no_acceptance,
    NoticeKind.UNPINNED_SAMPLING: lambda values: (
        "sampling is not pinned, so runs are not comparable: acceptance depends on the temperature. "
        "Give --temperature 0, or the one that you serve with"
    ),
    NoticeKind.RETRIED: lambda values: (
        f"{plural(values['count'], 'request')} met a kept-alive connection that the server had closed, and went out "
        "once more on a fresh one"
    ),
    NoticeKind.ADAPTER: lambda values: printable(values["text"], 400),
    NoticeKind.TOKENS_FROM_USAGE: lambda values: (
        "output and input lengths are the server's own counts (usage); --use-server-token-count says that this is meant"
    ),
    NoticeKind.NO_TOKEN_COUNTS: lambda values: (
        f"{plural(values['count'], 'successful request')} of {values['of']} came without usage: inter-token latency "
        "leaves them out, and token throughput is missing"
    ),
    NoticeKind.ZERO_USAGE: lambda values: (
        f"{plural(values['count'], 'response')} of {values['of']} brought content, but usage says 0 completion tokens: "
        "output lengths are shown as the server said them"
    ),
    NoticeKind.MAX_TOKENS_REFUSED: lambda values: (
        "the server refuses max_tokens: leave out --use-legacy-max-tokens, to send max_completion_tokens"
        if values["sent"] == "max_tokens"
        else "the server refuses max_completion_tokens: add --use-legacy-max-tokens, to send max_tokens"
    ),
    NoticeKind.SATURATED: lambda values: (
        f"the program itself was saturated: its event loop was late by {values['p50']:.1f} ms (p50), "
        f"{values['p99']:.1f} ms (p99), {values['max']:.1f} ms at most. The latencies are not to be trusted: lower the "
        f"load, or split it with --workers {values['workers'] * 2}"
    ),
    NoticeKind.SCHEDULE_LAG: lambda values: (
        f"{plural(values['count'], 'request')} of {values['of']} went out at least 50 ms after they were due "
        f"({values['max']:,.0f} ms at most): see schedule_lag, and scheduled_latency for what users would have waited"
    ),
    NoticeKind.CONNECTING: lambda values: (
        f"{plural(values['count'], 'request')} of {values['of']} opened a connection, which is part of their TTFT: "
        + ", ".join(
            f"its {name} is {ours:.1f} ms, {less:.1f} ms without" for name, (ours, less) in values["moved"].items()
        )
        + ". See http_connect; --warmup-request-count opens connections before the run"
    ),
    NoticeKind.INSECURE: lambda values: (
        "certificates went unchecked (--insecure): whoever answered may not be the server that --url names; "
        "--ca-file trusts a private certificate authority"
    ),
    NoticeKind.NO_SERVER_METRICS: lambda values: (
        f"the server's own counters are not in this report: {printable(values['url'])}: {printable(values['reason'])}; "
        "--server-metrics-url says where they are, --no-server-metrics that they are not wanted"
    ),
    NoticeKind.SERVER_METRICS_LOST: lambda values: (
        f"the server's counters could not be read after the last request, so they are not compared: "
        f"{printable(values['url'])}: {printable(values['reason'])}"
    ),
    NoticeKind.SERVER_METRICS_GAPS: lambda values: (
        f"{values['failed']} of {plural(values['of'], 'read')} of {printable(values['url'])} failed: averages over "
        "time leave those moments out, growth of counters does not"
    ),
    NoticeKind.UNSENT_TURNS: lambda values: (
        f"{plural(values['conversations'], 'conversation')} ended at a failed turn, and "
        f"{plural(values['turns'], 'turn')} after it went unsent"
    ),
    NoticeKind.SKIPPED_LINES: lambda values: (
        f"{plural(values['count'], 'line')} of {printable(values['name'])} could not be read as a prompt and went "
        "unsent (--skip-bad-lines)"
    ),
    NoticeKind.REPEATED_IDS: lambda values: (
        f"{plural(values['count'], 'prompt')} repeat the id of an earlier one: the second of id X is recorded as X#2"
    ),
    NoticeKind.TOKEN_DISCREPANCY: lambda values: (
        f"{values['side']} tokens of {plural(values['requests'], 'request')}: --tokenizer counts "
        f"{values['counted']:,}, usage {values['usage']:,}. It may be another model's tokenizer, or tokens that no "
        "text shows"
    ),
    NoticeKind.PROXY: lambda values: (
        f"requests went through the proxy {printable(values['proxy'])} that the environment names, and latencies "
        "include it; set NO_PROXY for this host to go direct"
    ),
}
