"""What a run says of its drafter to another program."""

from __future__ import annotations

import math
from itertools import accumulate
from operator import mul
from random import Random

import pytest
from scipy import stats

from aiperf_spec.analysis.measured_acceptance import MeasuredAcceptance, measured_acceptance
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import RequestRecord
from tests.simulated_runs import request, simulated_run

K = 4
CHANCES = (0.8, 0.6, 0.5, 0.3)
"""c(1..4) that are planted."""
PLANTED = list(accumulate(CHANCES, mul))


def planted(seed: int, prompts: int = 40, *, short: bool = True) -> list[RequestRecord]:
    """Return requests whose drafts have 1 to K tokens, whatever the text, and are accepted at the chances."""
    draws, records = Random(seed), []
    for index in range(prompts):
        drafted = [draws.choice((1, 2, 4, 4)) if short else K for _ in range(draws.randint(20, 60))]
        accepted = []
        for length in drafted:
            count = 0
            while count < length and draws.random() < CHANCES[count]:
                count += 1
            accepted.append(count)
        records.append(request(index, tuple(accepted), drafted=tuple(drafted), k=K))
    return records


def values(found: MeasuredAcceptance) -> list[float]:
    return [rate.value or 0.0 for rate in found.rates]


@pytest.mark.parametrize("short", [False, True], ids=["full drafts", "short drafts"])
def test_planted_rates_are_inside_their_intervals(short: bool) -> None:
    inside = total = 0
    for seed in range(40):
        found = measured_acceptance(planted(seed, short=short))
        assert (found.reason, found.k, found.full) == (None, K, not short)
        for rate, truth in zip(found.rates, PLANTED, strict=True):
            assert rate.low is not None
            assert rate.high is not None
            inside += rate.low <= truth <= rate.high
            total += 1
        products = list(accumulate((each.value or 0.0 for each in found.conditional), mul))
        assert values(found) == pytest.approx(products)
        assert values(found) == sorted(values(found), reverse=True)
    assert inside >= 0.9 * total, f"{inside} of {total}"


def test_the_interval_of_short_drafts_is_the_jackknifes() -> None:
    records = planted(3, prompts=9)
    found = measured_acceptance(records)
    without = [values(measured_acceptance([r for r in records if r is not left])) for left in records]
    for position, rate in enumerate(found.rates):
        each = [rates[position] for rates in without]
        mean = math.fsum(each) / len(each)
        error = math.sqrt((len(each) - 1) / len(each) * math.fsum((one - mean) ** 2 for one in each))
        drafts = [
            sum(
                done >= position and length > position
                for done, length in zip(r.acceptance.per_step_accepted, r.acceptance.per_step_drafted, strict=True)
            )
            for r in records
            if r.acceptance and r.acceptance.per_step_accepted and r.acceptance.per_step_drafted
        ]
        effective = sum(drafts) ** 2 / sum(count * count for count in drafts)
        reach = stats.t.ppf(0.975, effective - 1) * error
        assert rate.standard_error == pytest.approx(error)
        assert rate.high == pytest.approx(min(1.0, (rate.value or 0) + reach), rel=1e-4)


def test_full_drafts_have_the_survival_of_the_report() -> None:
    found = measured_acceptance(simulated_run(5, 30))
    histogram = [0] * (K + 1)
    for record in simulated_run(5, 30):
        assert record.acceptance is not None
        for accepted, steps in record.acceptance.acceptance_histogram.items():
            histogram[accepted] += steps
    assert values(found) == pytest.approx([sum(histogram[i:]) / sum(histogram) for i in range(1, K + 1)])
    assert found.length.value == pytest.approx(1 + sum(values(found)))


def drafter(method: str, *, chains: bool, branches: int | None = None, engine: str = "sglang") -> ServerDrafter:
    return ServerDrafter(engine=engine, method=method, branches=branches, drafts_chains=chains)


@pytest.mark.parametrize(
    ("records", "server", "reason"),
    [
        ([request(i, (1, 2), drafted=None, proposed=20, k=4) for i in range(5)], None, Missing.NOT_A_CHAIN),
        ([request(i, (1, 2), proposed=5, k=4, per_step=False) for i in range(5)], None, Missing.SHORT_DRAFTS),
        ([request(i, (1, 2), k=4, engine="acme") for i in range(5)], None, Missing.UNKNOWN_DRAFTER),
        ([request(i, (1, 1) * 20, k=4) for i in range(5)], None, Missing.LOOKS_LIKE_A_TREE),
        ([request(i, (1, 2), drafted=(2, 2), k=4) for i in range(5)], None, Missing.NONE_AT_RISK),
        (simulated_run(1, 9), drafter("DFLASH", chains=False), Missing.NOT_CHAINS),
        (simulated_run(1, 9), drafter("EAGLE3", chains=True, branches=4), Missing.NOT_CHAINS),
        (simulated_run(1, 9), drafter("EAGLE3", chains=True, branches=1), None),
        # llama.cpp's page names a method, and none of them drafts anything but chains.
        (simulated_run(1, 9), drafter("draft-simple", chains=False, engine="llama_cpp"), None),
        ([request(i, (), k=4) for i in range(5)], None, Missing.NO_RECORDS),
    ],
)
def test_rates_that_would_mislead_are_refused(
    records: list[RequestRecord], server: ServerDrafter | None, reason: Missing | None
) -> None:
    found = measured_acceptance(records, drafter=server)
    assert found.reason is reason
    assert bool(found.rates) is bool(found.conditional) is (reason is None)
    if reason is Missing.NOT_CHAINS:
        assert measured_acceptance(records, drafter=server, assume_chain=True).reason is None


def test_positions_that_nothing_reached_have_rate_zero() -> None:
    found = measured_acceptance([request(i, (0, 1, 0, i % 2), k=4) for i in range(6)])
    assert found.reason is None
    assert values(found)[1:] == [0, 0, 0]
    assert [each.value for each in found.conditional][2:] == [0, 0]
