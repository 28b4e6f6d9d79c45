"""Derive what a profile of each capture has to say, from its bytes alone, and write it to `tests/wire/expected.json`.

Reads with the standard library and knows nothing of the program, so that the replay compares two readings of the same
bytes. Run it after adding captures, and look at what it wrote: the table is what the tests believe.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WIRE = Path(__file__).parent / "wire"
DROPPED = {"vllm": "zero_step", "sglang": "malformed", "tensorrt_llm": "malformed"}
"""What an engine's object without a verify step is called."""


def captures() -> list[Path]:
    """Return the bodies that a chat or completions request got."""
    paths = (path for path in WIRE.glob("*/*") if path.suffix in (".sse", ".json"))
    return sorted(p for p in paths if not p.name.endswith(".request.json") and not p.name.startswith("generate-native"))


def request_of(path: Path) -> dict[str, Any]:
    """Return the request that got the capture; where it is not kept, what the name says of it."""
    file = path.with_name(path.stem + ".request.json")
    try:
        return dict(json.loads(file.read_text()))
    except (FileNotFoundError, ValueError):
        request: dict[str, Any] = {"model": "m", "stream": path.suffix == ".sse"}
        if "n2" in path.stem.split("-"):
            request["n"] = 2
        if "2prompts" in path.stem:
            return {**request, "prompt": ["hi", "ho"]}
        if path.stem.startswith("chat"):
            return {**request, "messages": [{"role": "user", "content": "hi"}]}
        return {**request, "prompt": "hi"}


def status_of(path: Path) -> tuple[int, str]:
    file = path.with_name(path.stem + ".headers.txt")
    if not file.exists():
        return 200, "OK"
    _, code, reason = file.read_text().split("\n", 1)[0].split(" ", 2)
    return int(code), reason.strip()


def events_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    if not text.startswith(("data:", "event:", ":")):
        return [json.loads(text)]
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    return [event for event in events if event is not None]


def texts_of(event: dict[str, Any]) -> tuple[str, str]:
    text = reasoning = ""
    for choice in event.get("choices") or []:
        said = choice.get("delta") or choice.get("message") or {}
        text += (choice.get("text") or "") + (said.get("content") or "")
        reasoning += said.get("reasoning_content") or said.get("reasoning") or ""
    return text, reasoning


def logprobs_of(events: list[dict[str, Any]]) -> list[tuple[str, float, dict[str, float]]]:
    """Return each token that is listed, its log-probability and all that are listed at its place."""
    found: list[tuple[str, float, dict[str, float]]] = []
    for event in events:
        for choice in event["choices"]:
            lists = choice.get("logprobs") or {}
            for token in lists.get("content") or ():
                found.append(
                    (token["token"], token["logprob"], {t["token"]: t["logprob"] for t in token["top_logprobs"]})
                )
            found += zip(*(lists.get(name, ()) for name in ("tokens", "token_logprobs", "top_logprobs")), strict=True)
    return found


def payloads_of(event: dict[str, Any]) -> list[Any]:
    found = [(event.get("metrics") or {}).get("speculative_decoding")]
    found.append((event.get("sglext") or {}).get("spec_tokens_details"))
    found += [choice.get("speculative_decoding") for choice in event.get("choices") or []]
    return [each for each in found if each]


def record_of(engine: str, stats: dict[str, Any], completion_tokens: int | None) -> dict[str, Any] | str:
    """Return the record of an engine's object, or the reason why there is none."""
    if engine == "sglang":
        names = (
            "spec_correct_drafts_histogram",
            "spec_verify_ct",
            "spec_num_correct_drafts",
            "spec_num_proposed_drafts",
        )
    elif engine == "tensorrt_llm":
        names = ("acceptance_histogram", "num_spec_steps", "total_accepted_draft_tokens", "total_draft_tokens")
    else:
        names = ("acceptance_histogram", "num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
    histogram, steps, accepted, drafted = (stats[name] for name in names)
    if steps == 0:
        return DROPPED[engine]
    if sum(histogram) != steps or sum(i * count for i, count in enumerate(histogram)) != accepted:
        return "malformed"
    return {
        "engine": engine,
        "length": round(stats.get("mean_acceptance_length", 1 + accepted / steps), 4),
        "rate": round(accepted / drafted, 4),
        "histogram": {str(i): count for i, count in enumerate(histogram) if count},
        "accepted": accepted,
        "drafted": drafted,
        "steps": steps,
        "k": stats.get("num_spec_tokens"),
        "completion_tokens": completion_tokens,
        "per_step_accepted": stats.get("per_step_accepted"),
        "per_step_drafted": stats.get("per_step_drafted"),
    }


def llama_cpp_of(events: list[dict[str, Any]], completion_tokens: int | None) -> dict[str, Any]:
    """Return what llama.cpp's timings say: a record where the tokens without them hide no step, else the totals."""
    timings = [event["timings"] for event in events if "timings" in event]
    by_token = {t["predicted_n"]: (t.get("draft_n", 0), t.get("draft_n_accepted", 0)) for t in timings}
    last = max(by_token)
    drafted, accepted = by_token[last]
    if not drafted:
        return {"drop": "zero_step"}
    grown = llama_cpp_steps(by_token)
    if grown is None or len(by_token) == 1:
        totals = {"drafted": drafted, "accepted": accepted, "steps": [1, min(drafted, last - 1 - accepted)]}
        return {"drop": "totals_only", "totals": {**totals, "completion_tokens": completion_tokens or last}}
    per_step = [a for _, a in grown]
    stats = {
        "acceptance_histogram": [per_step.count(i) for i in range(max(per_step) + 1)],
        "num_spec_steps": len(grown),
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "mean_acceptance_length": 1 + accepted / len(grown),
        "num_spec_tokens": None,
        "per_step_accepted": per_step,
        "per_step_drafted": [d for d, _ in grown],
    }
    return {"record": record_of("llama_cpp", stats, completion_tokens)}


def llama_cpp_steps(by_token: dict[int, tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Return what each step proposed and accepted; None where a token that brought no totals may have begun one."""
    steps: list[tuple[int, int]] = []
    token, drafted, accepted, covered = 1, 0, 0, 1
    for now, (now_drafted, now_accepted) in sorted(by_token.items()):
        begun = now - 1 > max(token, covered)
        if begun and now_drafted - drafted > 1:
            return None
        if now_drafted > drafted:
            steps.append((now_drafted - drafted, now_accepted - accepted))
            covered = now if begun else now + now_accepted - accepted
        token, drafted, accepted = now, now_drafted, now_accepted
    return steps


def acceptance_of(engine: str, request: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of a whole response, or the reason why there is none and what there is instead."""
    usages = [event["usage"] for event in events if event.get("usage")]
    tokens = usages[-1]["completion_tokens"] if usages else None
    payloads = [payload for event in events for payload in payloads_of(event)]
    prompts = request.get("prompt")
    if request.get("n", 1) > 1 or (isinstance(prompts, list) and len(prompts) > 1):
        return {"drop": "multi_sequence"}
    if engine == "llama_cpp":
        return llama_cpp_of(events, tokens)
    if not payloads:
        return {"drop": "absent"}
    result = record_of(engine, payloads[-1], tokens)
    return {"drop": result} if isinstance(result, str) else {"record": result}


def expected_of(path: Path) -> dict[str, Any]:
    engine, request, events = path.parent.name, request_of(path), events_of(path)
    code, reason = status_of(path)
    if code != 200:
        error = events[0].get("error") or events[0]
        return {"error": "http_status", "message": f"HTTP {code} {reason}: {error['message']}"}
    for event in events:
        if "error" in event:
            return {"error": "server_error", "message": event["error"]["message"]}
        if any(choice.get("finish_reason") == "abort" for choice in event.get("choices") or []):
            return {"error": "aborted", "message": "the server aborted the request (finish_reason: abort)"}
    texts = [texts_of(event) for event in events]
    usages = [event["usage"] for event in events if event.get("usage")]
    usage = usages[-1] if usages else None
    row: dict[str, Any] = {
        "events": len(events) + sum(map(path.read_bytes().count, (b"data: [DONE]", b"data: null"))),
        "contents": sum(1 for text, reasoning in texts if text or reasoning),
        "text": "".join(text for text, _ in texts),
        "reasoning": "".join(reasoning for _, reasoning in texts),
        "usage": usage and [usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]],
    }
    acceptance = acceptance_of(engine, request, events)
    if engine == "llama_cpp" and acceptance.get("drop") == "multi_sequence":
        row["whole_usage"] = False  # each sequence has its own
    return {**row, **acceptance}


def main() -> None:
    table = {f"{path.parent.name}/{path.name}": expected_of(path) for path in captures()}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in table.items())
    (WIRE / "expected.json").write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    main()
