"""Make a tiny Llama with random weights, and a draft model for it, as GGUF: enough for llama.cpp to serve.

    python make_model.py FOLDER

Both models know which letter follows which in a sentence. Beside that each has random layers of its own, so the target
model sometimes departs from what the draft model proposes. Needs numpy and gguf; nothing is downloaded.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy

SENTENCE = " the draft token is accepted, or not. "
NOISE = 0.14
"""Spread of the layers' weights: less, and every draft is accepted; more, and none is."""
END = "<|end|>"
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
WIDTH, INNER, HEADS, KEY_HEADS, HEAD = 128, 256, 4, 2, 32


def byte_tokens() -> list[str]:
    """Return how GPT-2 writes each of the 256 bytes: as itself where it can be printed, else from U+0100 on."""
    printed = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printed else chr(next(others)) for byte in range(256)]


def add_vocabulary(writer: Any) -> int:
    """Describe a tokenizer of single bytes and an end token, and return how many tokens it has."""
    letters = byte_tokens()
    tokens = [END, *letters, letters[0] + letters[1]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    # The format asks for a merge. Nobody writes these two bytes.
    writer.add_token_merges([f"{letters[0]} {letters[1]}"])
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    return len(tokens)


def add_weights(writer: Any, vocabulary: int, layers: int, seed: int) -> None:
    """Add weights, of which the letters and what follows them are the same for every seed."""
    shared, own = numpy.random.default_rng(0), numpy.random.default_rng(seed)
    letters = shared.normal(0, 1, (vocabulary, WIDTH))
    answers = shared.normal(0, 0.1, (vocabulary, WIDTH))
    for letter, following in pairwise(SENTENCE.encode()):
        answers[1 + following] += letters[1 + letter]
    # It writes printable ASCII and never ends: a byte of a longer character would be held back by the server.
    answers[[0, *range(1, 33), *range(128, vocabulary)]] = 0
    ones = numpy.ones(WIDTH)
    tensors = {"token_embd": letters, "output": answers, "output_norm": ones}
    for layer in range(layers):
        shapes = {
            "attn_q": (HEADS * HEAD, WIDTH),
            "attn_k": (KEY_HEADS * HEAD, WIDTH),
            "attn_v": (KEY_HEADS * HEAD, WIDTH),
            "attn_output": (WIDTH, HEADS * HEAD),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        tensors |= {f"blk.{layer}.{name}": own.normal(0, NOISE, shape) for name, shape in shapes.items()}
        tensors |= {f"blk.{layer}.{name}": ones for name in ("attn_norm", "ffn_norm")}
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor.astype(numpy.float32))


def make_model(file: Path, layers: int, seed: int) -> None:
    """Write a Llama, the same in every run."""
    import gguf

    writer: Any = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(HEAD)
    vocabulary = add_vocabulary(writer)
    writer.add_vocab_size(vocabulary)
    add_weights(writer, vocabulary, layers, seed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    make_model(target / "draft.gguf", layers=1, seed=1)
    make_model(target / "tiny.gguf", layers=2, seed=2)
