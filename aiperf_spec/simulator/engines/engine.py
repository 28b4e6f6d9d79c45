"""Say what every simulated engine has to answer."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..call import Call, Endpoint, Event, Payload, prompt_texts, prompt_token_count, read_call
from ..config import SimulatorConfig
from ..drafter import Draw


class RejectedError(Exception):
    """Say that an engine refuses a request, with the status and body it answers."""

    def __init__(self, status: int, payload: Payload) -> None:
        super().__init__(status)
        self.status = status
        self.payload = payload


class Engine(ABC):
    """Shape the responses of one engine; a subclass holds all that is particular to it."""

    owner: ClassVar[str]
    """What it gives as the owner of a model."""
    id_formats: ClassVar[Mapping[Endpoint, str]]
    settings_paths: ClassVar[tuple[str, ...]] = ("/server_info",)
    # Whether what follows the content is still sent after an error in the middle of a stream.
    trailer_after_error: ClassVar[bool] = False

    def __init__(self, config: SimulatorConfig) -> None:
        self.config = config
        self.started = int(time.time())

    def accept(self, body: Mapping[str, Any], endpoint: Endpoint, sequence: int) -> Call:
        """Check a body as the engine would, raising RejectedError where it refuses, and draw the answer."""
        self.check(body, endpoint)
        return read_call(body, endpoint, self.config, sequence, self.id_formats[endpoint])

    @abstractmethod
    def check(self, body: Mapping[str, Any], endpoint: Endpoint) -> None:
        """Raise RejectedError for a body that the engine refuses."""

    @abstractmethod
    def malformed(self, endpoint: Endpoint, position: int, reason: str) -> RejectedError:
        """Build the refusal of a body that is not JSON."""

    def error(self, message: str, kind: str, status: int, param: str | None = None) -> Payload:
        """Shape an error body: flat, with nothing around it."""
        return {"object": "error", "message": message, "type": kind, "param": param, "code": status}

    @abstractmethod
    def stream(self, call: Call) -> Iterator[Event]:
        """Yield the payloads of a streamed answer, without the end mark."""

    @abstractmethod
    def body(self, call: Call) -> Payload:
        """Shape the body of an answer that is not streamed."""

    @abstractmethod
    def sends_stats(self, call: Call) -> bool:
        """Say whether the engine reports acceptance for this request at all."""

    @abstractmethod
    def with_running_stats(self, payload: Payload, draw: Draw) -> Payload:
        """Return a payload with the statistics of the steps so far in the engine's own place."""

    def head(self, call: Call, response_id: str, *, stream: bool) -> Payload:
        """Return the fields that every payload of an answer begins with."""
        chat = "chat.completion.chunk" if stream else "chat.completion"
        kind = chat if call.endpoint == "chat" else "text_completion"
        return {"id": response_id, "object": kind, "created": int(time.time()), "model": call.model}

    def models(self) -> Payload:
        """Shape the answer of GET /v1/models."""
        card = {"id": self.config.model, "object": "model", "created": self.started, "owned_by": self.owner}
        return {"object": "list", "data": [card | self.model_details()]}

    def model_details(self) -> Payload:
        """Return what the engine adds to a model card."""
        return {}

    def settings(self, path: str) -> Payload | list[Payload] | None:
        """Shape the answer of GET on one of `settings_paths`; None where the engine has no such page."""
        return None

    def version(self) -> str | None:
        """Return the version that GET /version answers; None where the engine has no such page."""
        return None

    def refuse(self, message: str, status: int = 400, param: str | None = None) -> RejectedError:
        """Build the refusal of a request."""
        kind = "NotFoundError" if status == 404 else "BadRequestError"
        return RejectedError(status, self.error(message, kind, status, param))

    def check_prompt(self, body: Mapping[str, Any], endpoint: Endpoint) -> int:
        """Return the number of prompt tokens, refusing a body whose prompt or limits have a wrong type."""
        field = "messages" if endpoint == "chat" else "prompt"
        if prompt_texts(body, endpoint) is None:
            raise self.refuse(f"{field}: a non-empty value is required", param=field)
        for key in ("max_completion_tokens", "max_tokens", "min_tokens", "n"):
            value = body.get(key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise self.refuse(f"{key} must be an integer, got {value!r}.", param=key)
        if body.get("n") is not None and body["n"] < 1:
            raise self.refuse(f"n must be at least 1, got {body['n']}.", param="n")
        return prompt_token_count(body, endpoint)

    def temperature(self, body: Mapping[str, Any]) -> float:
        """Return the temperature of a body, refusing what is no number."""
        value = body.get("temperature")
        if value is None:
            return 1.0
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse("temperature must be a number.", param="temperature")
        return float(value)


def usage_counts(prompt_tokens: int, completion_tokens: int) -> Payload:
    """Shape the three counts that every engine's usage begins with."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def json_invalid(position: int, reason: str) -> Payload:
    """Shape what pydantic says of a body that is not JSON, which all the engines quote."""
    place = ("body", position)
    return {"type": "json_invalid", "loc": place, "msg": "JSON decode error", "input": {}, "ctx": {"error": reason}}
