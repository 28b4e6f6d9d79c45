"""Count what the simulated engine did, as the real one counts it for Prometheus."""

from collections import Counter
from collections.abc import Iterator

from .config import SimulatorConfig
from .ledger import LedgerEntry


class Counters:
    """Hold counters that only grow, of requests that have ended; a reset of the ledger leaves them alone.

    With `data_parallel` engines behind one server, requests go to them in turn and each has series of its own.
    """

    def __init__(self, config: SimulatorConfig) -> None:
        self.config = config
        self.in_flight = 0
        self._engines = [_Engine() for _ in range(config.data_parallel)]
        self._last_length = self._last_rate = 0.0

    def count(self, entry: LedgerEntry) -> None:
        """Add a request that has ended, however it ended."""
        engine = self._engines[entry.sequence % len(self._engines)]
        engine.steps += entry.steps
        engine.proposed += entry.proposed
        engine.accepted += entry.accepted
        engine.tokens += entry.completion_tokens
        for bucket, steps in entry.histogram.items():
            for position in range(bucket):
                engine.positions[position] += steps
        if entry.completion_tokens:
            # Each choice is a request of its own; of several to a prompt, SGLang first caches the prompt by another.
            choices = len(entry.steps_per_choice)
            engine.finished["length" if entry.finished else "abort"] += choices
            engine.prefixes += choices // entry.samples if entry.samples > 1 else 0
        if entry.steps:
            self._last_length = 1 + entry.accepted / entry.steps
            self._last_rate = entry.accepted / entry.proposed if entry.proposed else 0.0

    def text(self) -> str:
        """Return all series in Prometheus' text format."""
        lines = {
            "vllm": self._vllm,
            "sglang": self._sglang,
            "tensorrt_llm": self._tensorrt_llm,
            "llama_cpp": self._llama_cpp,
        }[self.config.engine]
        return "\n".join(lines()) + "\n"

    def _vllm(self) -> Iterator[str]:
        model = self.config.model
        tokens = ("generation_tokens", "Number of generation tokens processed.", [e.tokens for e in self._engines])
        of_drafts = (
            ("spec_decode_num_drafts", "Number of spec decoding drafts.", [e.steps for e in self._engines]),
            ("spec_decode_num_draft_tokens", "Number of draft tokens.", [e.proposed for e in self._engines]),
            ("spec_decode_num_accepted_tokens", "Number of accepted tokens.", [e.accepted for e in self._engines]),
        )
        # vLLM has none of speculation unless it runs with a drafter.
        drafts = self.config.draft_length > 0
        for name, help_text, values in (*of_drafts, tokens) if drafts else (tokens,):
            yield from _head(f"vllm:{name}_total", help_text, "counter")
            for index, value in enumerate(values):
                yield f'vllm:{name}_total{{engine="{index}",model_name="{model}"}} {float(value)}'
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        if drafts:
            yield from _head(name, "Accepted tokens per draft position.", "counter")
        for index, engine in enumerate(self._engines):
            for position in range(self.config.draft_length):
                labels = f'engine="{index}",model_name="{model}",position="{position}"'
                yield f"{name}{{{labels}}} {float(engine.positions[position])}"
        yield from _head("vllm:request_success_total", "Count of successfully processed requests.", "counter")
        for index, engine in enumerate(self._engines):
            for reason in ("length", "abort"):
                labels = f'engine="{index}",finished_reason="{reason}",model_name="{model}"'
                yield f"vllm:request_success_total{{{labels}}} {float(engine.finished[reason])}"
        yield from _head("vllm:num_requests_running", "Number of requests in model execution batches.", "gauge")
        yield f'vllm:num_requests_running{{engine="0",model_name="{model}"}} {float(self.in_flight)}'

    def _sglang(self) -> Iterator[str]:
        labels = f'engine_type="unified",model_name="{self.config.model}"'
        ranks = f'{labels},moe_ep_rank="0",pp_rank="0",tp_rank="0"'
        decoded = sum(engine.steps + engine.accepted for engine in self._engines)
        for name, kind, value, where in (
            ("spec_accept_length", "gauge", self._last_length, ranks),
            ("spec_accept_rate", "gauge", self._last_rate, ranks),
            ("num_running_reqs", "gauge", self.in_flight, ranks),
            ("spec_verify_calls_total", "counter", sum(engine.steps for engine in self._engines), labels),
            ("num_requests_total", "counter", sum(e.finished.total() + e.prefixes for e in self._engines), labels),
            ("realtime_tokens_total", "counter", decoded, f'mode="decode",{ranks}'),
            ("generation_tokens_total", "counter", sum(engine.tokens for engine in self._engines), labels),
        ):
            yield from _head(f"sglang:{name}", name.replace("_", " "), kind)
            yield f"sglang:{name}{{{where}}} {float(value)}"

    def _tensorrt_llm(self) -> Iterator[str]:
        finished = sum(engine.finished.total() for engine in self._engines)
        yield from _head("trtllm_request_success_total", "Count of successfully processed requests.", "counter")
        yield f'trtllm_request_success_total{{engine_type="trtllm",model_name="{self.config.model}"}} {float(finished)}'

    def _llama_cpp(self) -> Iterator[str]:
        # One engine, without labels; it prints six digits.
        positions = sum((engine.positions for engine in self._engines), Counter[int]())
        for name, kind, value in (
            ("tokens_predicted_total", "counter", sum(engine.tokens for engine in self._engines)),
            ("spec_decode_num_draft_tokens_total", "counter", sum(engine.proposed for engine in self._engines)),
            ("spec_decode_num_accepted_tokens_total", "counter", sum(engine.accepted for engine in self._engines)),
            ("spec_decode_num_drafts_total", "counter", sum(engine.steps for engine in self._engines)),
            ("requests_processing", "gauge", self.in_flight),
        ):
            yield from _head(f"llamacpp:{name}", name.replace("_", " "), kind)
            yield f"llamacpp:{name} {value:.6g}"
        if positions:
            name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
            yield from _head(name, "Accepted tokens per draft position", "counter")
            for position in range(self.config.draft_length):
                yield f'{name}{{position="{position}"}} {positions[position]}'


class _Engine:
    def __init__(self) -> None:
        self.steps = 0
        self.proposed = 0
        self.accepted = 0
        self.tokens = 0
        self.positions: Counter[int] = Counter()
        self.finished: Counter[str] = Counter()
        self.prefixes = 0


def _head(name: str, help_text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
