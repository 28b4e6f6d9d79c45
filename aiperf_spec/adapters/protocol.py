"""The contract between the program and an engine's adapter."""

from typing import ClassVar, Protocol, runtime_checkable

from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse


@runtime_checkable
class SpecDecodeAdapterProtocol(Protocol):
    """Turn what one engine reports into the engine-neutral record; stateless, all class methods.

    A class attribute `engine_description`, an `EngineDescription`, may say what else is known of the engine: then
    hints, counters and analysis serve it as they serve the built-in ones.

    `payload_path` tells the parser where the engine puts its object, from the top of an event or body:
    keys, with "*" for every item of a list. The parser captures the object into
    `ParsedResponse.spec_decode_stats`. A response may stand for several events: those in a row that
    differ in text alone are one, with their arrivals in `arrivals_ns`. One that carries an object never does.

    An engine that sends running totals has its steps in what each object adds to the one before. Its adapter sets
    `reads_running_totals` and checks itself that they only grow; of any other the last object counts.
    """

    payload_path: ClassVar[tuple[str, ...]]

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        """Say whether a captured object bears this engine's signature keys, wherever it was found."""
        ...

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | DraftTotals | None:
        """Return the request's record, with zero steps where no verify step ran; None for a malformed object.

        An engine that counts drafts and no steps gives `DraftTotals`, of which no figure of records is made.
        """
        ...
