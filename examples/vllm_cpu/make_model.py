"""Make a tiny Llama with random weights and a byte-level tokenizer: enough for vLLM to serve, without any download.

    python make_model.py FOLDER

Every letter calls, through the random layers' noise, for one that follows it in a sentence: the text repeats itself in
parts, so a drafter that looks up what came before is right in parts.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

SENTENCE = " the draft token is accepted, or not. "
NOISE = 0.14
"""Spread of the layers' weights: less, and every draft is accepted; more, and none is."""
END = "<|end|>"
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def make_tokenizer(folder: Path) -> Any:
    """Write a tokenizer of single bytes and an end token, and return it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate([END, *alphabet])}
    bytes_alone: Any = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, eos_token=END, pad_token=END)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(folder: Path, tokenizer: Any) -> None:
    """Write a Llama of two layers, the same in every run."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config: Any = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=NOISE,
    )
    model: Any = LlamaForCausalLM(config)
    letters, answers = model.model.embed_tokens.weight, model.lm_head.weight
    with torch.no_grad():
        letters.normal_(0, 1)
        answers.normal_(0, 0.1)
        for letter, following in pairwise(tokenizer(SENTENCE).input_ids):
            answers[following] += letters[letter]
    model.to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    make_model(target, make_tokenizer(target))
