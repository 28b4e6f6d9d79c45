"""Judge a response that has ended: did the request succeed?"""

from __future__ import annotations

from aiperf_spec.models.response import ParsedResponse, last_usage
from aiperf_spec.models.run import ErrorKind, RequestError


def request_failure(responses: list[ParsedResponse], *, is_stream: bool) -> RequestError | None:
    """Return why the request failed, or None.

    A stream succeeds if some choice finished or the end mark came; a body if it holds a choice. Either fails on a
    server's error, even after tokens, on a choice that finished by abortion or error, and where no token came at all.
    """
    for response in responses:
        if response.error is not None:
            kind = ErrorKind.MALFORMED if response.malformed else ErrorKind.SERVER_ERROR
            return RequestError(kind, response.error)
    if any("abort" in response.finish_reasons for response in responses):
        return RequestError(ErrorKind.ABORTED, "the server aborted the request (finish_reason: abort)")
    if any("error" in response.finish_reasons for response in responses):
        return RequestError(ErrorKind.SERVER_ERROR, "the server failed within the response (finish_reason: error)")
    if is_stream:
        if not any(response.finish_reasons or response.is_done for response in responses):
            return RequestError(ErrorKind.INCOMPLETE, "the stream ended without a finish_reason or [DONE]")
    elif not any(response.choice_indices for response in responses):
        return RequestError(ErrorKind.MALFORMED, "the server sent a body without choices")
    if any(response.is_content for response in responses):
        return None
    usage = last_usage(responses)
    # A response may be all special tokens: then usage counts what no text shows. Without either there is nothing
    # that could be measured, and a success with zero tokens would only flatter the averages.
    if usage is None or not usage.completion_tokens:
        return RequestError(ErrorKind.EMPTY, "the server sent no token")
    return None
