"""End a run that fails: at its first requests, or at `--max-error-rate`."""

from collections import Counter
from dataclasses import dataclass, field

from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ErrorRateError, NoContactError, SpecProfileError
from aiperf_spec.load.model import Model
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord
from aiperf_spec.wire.remedies import brief, is_hopeless, remedy

_FEWEST = 3
"""Requests that have to fail before a run gives up, however low its concurrency."""
_ENOUGH = 30
"""Requests, at the least, of which a share is taken while the run goes on and their number is not known."""


@dataclass(slots=True)
class FailureWatch:
    """Look at each record as its request ends, and say when the run is not worth going on with.

    That is where the first requests, as many as the concurrency and at least 3, all failed as every later one will,
    unless `--keep-going`; and where more failed than `--max-error-rate` allows. While the run goes on the share is of
    all requests that it will send (`expected`), so that it ends once nothing can save it; where their number is not
    known, of those that have ended, and of 30 at the least.
    """

    config: ProfileConfig
    model: Model
    expected: int | None
    _contact: bool = field(init=False, default=False)
    """Whether some request has shown that there is a server to be measured."""
    _first: list[RequestError] = field(init=False, default_factory=list)
    _ended: int = field(init=False, default=0)
    _failed: Counter[str] = field(init=False, default_factory=Counter)
    """How many requests failed with each remedy."""

    def look(self, record: RequestRecord) -> SpecProfileError | None:
        """Return why the run should end now, if it should."""
        error = record.error
        if error is not None and error.kind is ErrorKind.CANCELLED:
            return None
        if not self._contact and (failure := self._look_at_first(error)) is not None:
            return failure
        if self.config.max_error_rate is None or record.phase is not Phase.PROFILING:
            return None
        self._ended += 1
        if error is not None:
            self._failed[self._remedy(error)] += 1
        return self._exceeded(max(self._ended, self.expected or _ENOUGH))

    def verdict(self) -> SpecProfileError | None:
        """Return whether more failed than is allowed, of the requests that ended: once the run is over."""
        return self._exceeded(self._ended)

    def _look_at_first(self, error: RequestError | None) -> SpecProfileError | None:
        self._contact = error is None or self.config.keep_going or not is_hopeless(error)
        if self._contact or error is None:
            return None
        self._first.append(error)
        needed = max(self.config.concurrency, _FEWEST)
        if len(self._first) < needed:
            return None
        first = self._first[0]
        # A failure to connect names the host and the port itself.
        where = (
            "" if first.status is None else f" to {split_endpoint(self.config.url).shown(self.config.endpoint_type)}"
        )
        message = f"the first {needed} requests{where} all failed, so the run stopped: {brief(first)}"
        return NoContactError(message, f"{self._remedy(first)}; --keep-going sends the rest")

    def _exceeded(self, of: int) -> SpecProfileError | None:
        allowed, failed = self.config.max_error_rate, self._failed.total()
        if allowed is None or failed <= allowed * of:
            return None
        message = f"{failed} of {self._ended} requests failed, more than --max-error-rate {allowed:g} allows"
        (most, _), *_ = self._failed.most_common(1)
        return ErrorRateError(message, most or None)

    def _remedy(self, error: RequestError) -> str:
        return remedy(error, has_key=bool(self.config.api_key), model=self.model.name, listed=self.model.listed)
