"""Make up the log-probabilities of an answer's tokens, as vLLM 0.32 lists them."""

from .call import Call, Generation, Payload

_LIKELY, _AS_LIKELY, _UNLIKELY = -0.75, -0.8125, -3.25
"""Of the token itself, and of the other one at a near-tie and elsewhere."""


def logprobs(call: Call, generation: Generation, start: int, end: int) -> Payload | None:
    """Shape the log-probabilities of the tokens from `start` up to `end`; None where the body asks for none.

    Two are listed for each token: its own, and that of the wrong answer's in its place, or of the right one's.
    """
    asked = call.body.get("logprobs")
    if asked in (None, False) or not (tokens := generation.tokens(start, end)):
        return None
    others = generation.tokens(start, end, swapped=True)
    top = [
        {token: _LIKELY, other: _AS_LIKELY if generation.near_tie and at == generation.parts_at else _UNLIKELY}
        for at, (token, other) in enumerate(zip(tokens, others, strict=True), start)
    ]
    if call.endpoint == "completions":
        offsets = [len("".join(tokens[:at])) for at in range(len(tokens))]
        likely = [_LIKELY] * len(tokens)
        return {"text_offset": offsets, "token_logprobs": likely, "tokens": tokens, "top_logprobs": top}
    shown = int(call.body.get("top_logprobs") or 0)
    content = [
        _listed(token, _LIKELY) | {"top_logprobs": [_listed(*pair) for pair in list(each.items())[:shown]]}
        for token, each in zip(tokens, top, strict=True)
    ]
    return {"content": content}


def _listed(token: str, logprob: float) -> Payload:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
