"""How engines take a draft length that depends on the size of the batch, and what each of them asks of it."""

import json

from aiperf_spec.models.schedule import Configuration, NoConfiguration, Schedule

_NEVER = "no draft length was found to be faster than running without speculation, at any batch that was measured"
_EAGLE = ("EAGLE", "EAGLE3")


def vllm_schedule(schedule: Schedule) -> Configuration | NoConfiguration:
    """Return vLLM's `num_speculative_tokens_per_batch_size`: [first, last, k] for inclusive ranges that start at 1.

    Read from vLLM 0.32.0 (v1/spec_decode/dynamic/utils.py, config/vllm.py). Beyond the last range, the last k holds.
    Each k is cut to `num_speculative_tokens`, which has to be above 0. Under data parallelism vLLM takes the schedule
    off, and without its second model runner it captures piecewise CUDA graphs alone.
    """
    if not schedule.longest:
        return NoConfiguration(_NEVER)
    if schedule.engines > 1:
        return NoConfiguration("vLLM takes no schedule under data parallelism, and would use one draft length for all")
    ranges = [[each.first, each.last, each.k] for each in schedule.ranges]
    name = "num_speculative_tokens"
    content = {name: schedule.longest, f"{name}_per_batch_size": ranges}
    option = "--speculative-config."
    return Configuration(
        file_name="speculative_config.json",
        content=content,
        text=json.dumps(content) + "\n",
        use=f"add these fields to --speculative-config, or: {option}{name} {schedule.longest} "
        f"{option}{name}_per_batch_size '{json.dumps(ranges)}'",
        limits=(
            f"batches of more than {schedule.ranges[-1].last} requests were not measured and get the last draft length",
            "vLLM captures piecewise CUDA graphs for it, unless VLLM_USE_V2_MODEL_RUNNER=1 is set",
        ),
    )


def tensorrt_llm_schedule(schedule: Schedule) -> Configuration | NoConfiguration:
    """Return TensorRT-LLM's `draft_len_schedule`, a draft length by batch size.

    Read from llmapi/llm_args.py and _torch/speculative as its pull requests 8194 (October 2025) and 10860 (January
    2026) left them. In the newer code a key is the largest batch of its draft length, and 0 holds beyond the last; in
    the older it is the smallest batch, 1 is among them, and the last holds beyond. With a key at both ends of each
    range, both read the same. In both the first draft length has to be `max_draft_len`, and none may be above it; the
    newer refuses `max_concurrency` beside it. Later code (`min_runtime_draft_len`) takes 1 for 0 with some drafters.
    """
    if not schedule.longest:
        return NoConfiguration(_NEVER)
    first = schedule.ranges[0].k
    if first < schedule.longest:
        return NoConfiguration(
            f"TensorRT-LLM takes no draft length above that of the smallest batch, and {schedule.longest} is best at a "
            f"larger one than {first} is"
        )
    by_batch = {end: each.k for each in schedule.ranges for end in (each.first, each.last)}
    limits = [
        f"batches of more than {schedule.ranges[-1].last} requests were not measured: newer versions draft one token "
        "there or none, older ones use the last draft length",
        "only some of its drafters, on the PyTorch backend, can change their draft length",
    ]
    if 0 in by_batch.values():
        limits.append(
            "at a draft length of 0, newer versions draft one token with some drafters; otherwise requests that go on "
            "may accept less afterwards (pull request 16888)"
        )
    return Configuration(
        file_name="speculative_config.yaml",
        content={"max_draft_len": first, "draft_len_schedule": by_batch},
        text=f"max_draft_len: {first}\ndraft_len_schedule:\n" + "".join(f"  {b}: {k}\n" for b, k in by_batch.items()),
        use="add these fields to speculative_config in the server's configuration, and leave max_concurrency out",
        limits=tuple(limits),
    )


def sglang_schedule(schedule: Schedule) -> Configuration | NoConfiguration:
    """Return SGLang's file for `--speculative-adaptive-config`: `candidate_steps` by the smallest batch that has them.

    Read from SGLang 0.5.23 (srt/speculative/adaptive_spec_params.py, srt/arg_groups/speculative_hook.py). With a single
    candidate a batch size has that many steps, whatever is accepted; 0 switches speculation off. Of other algorithms
    than EAGLE and EAGLE3, of more than one branch, and under attention DP, SGLang takes it off with a warning.
    """
    if not schedule.longest:
        return NoConfiguration(_NEVER)
    if schedule.method is not None and schedule.method.upper() not in _EAGLE:
        return NoConfiguration(
            f"SGLang adapts the steps of EAGLE and EAGLE3 alone, and this server runs {schedule.method}"
        )
    if schedule.branches not in (None, 1):
        return NoConfiguration(
            "SGLang adapts drafts of one branch alone, and this server has --speculative-eagle-topk "
            f"{schedule.branches}"
        )
    if schedule.engines > 1:
        return NoConfiguration("SGLang does not adapt steps under attention data parallelism")
    steps = schedule.longest
    content = {str(each.first): {"candidate_steps": [each.k]} for each in schedule.ranges}
    return Configuration(
        file_name="speculative_adaptive.json",
        content=content,
        text=json.dumps(content) + "\n",
        use="start SGLang with --speculative-adaptive --speculative-adaptive-config speculative_adaptive.json "
        f"--speculative-eagle-topk 1 --speculative-num-steps {steps}",
        limits=(
            f"batches of more than {schedule.ranges[-1].last} requests were not measured and get the last draft length",
            "it needs --speculative-algorithm EAGLE or EAGLE3, without attention data parallelism",
            "with CUDA graphs, a batch counts as the captured size that holds it",
        ),
    )
