"""Stand in for the CPU build of sgl-kernel, which PyPI does not have, in plain torch.

It holds what SGLang 0.5.23 calls for `--device cpu --speculative-algorithm NGRAM`: attention over the KV cache, the
places of tokens in it, and which tokens of a draft tree are right. Loops over requests take the place of kernels, so it
is slow. Functions that end in `_cpu` have the kernels' names and arguments, and write into the tensors that they get.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

Tensor = Any

_LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")


def assign_extend_cache_locs_cpu(
    requests: Tensor, places: Tensor, starts: Tensor, ends: Tensor, out: Tensor, _length: int
) -> None:
    """Copy the places in the cache of each request's tokens from its start to its end, one request after another."""
    at = 0
    for row, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist(), strict=False):
        out[at : at + end - start] = places[row, start:end].to(out.dtype)
        at += end - start


def assign_req_to_token_pool_cpu(
    requests: Tensor, places: Tensor, starts: Tensor, ends: Tensor, given: Tensor, _length: int
) -> None:
    """Enter new places in the cache for each request's tokens from its start to its end."""
    at = 0
    for row, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist(), strict=False):
        places[row, start:end] = given[at : at + end - start].to(places.dtype)
        at += end - start


def assign_draft_cache_locs_contiguous_cpu(
    requests: Tensor, places: Tensor, lengths: Tensor, out: Tensor, _length: int, branches: int, steps: int
) -> None:
    """Copy the places behind each request's tokens that its draft may take."""
    width = branches * steps
    for i, (row, length) in enumerate(zip(requests.tolist(), lengths.tolist(), strict=False)):
        out[i * width : (i + 1) * width] = places[row, length : length + width].to(out.dtype)


def fill_bonus_tokens_cpu(accepted: Tensor, lengths: Tensor, bonus: Tensor, stride: int) -> None:
    """Pick the last token that each request's step gave."""
    tokens = accepted.reshape(-1)
    for i, length in enumerate(lengths.tolist()):
        bonus[i] = tokens[stride * i + length - 1]


def fill_accept_out_cache_loc_cpu(index: Tensor, given: Tensor, out: Tensor) -> None:
    """Copy the places of accepted tokens; an index of -1 is none."""
    chosen = index.reshape(-1)
    chosen = chosen[chosen > -1].long()
    out[: chosen.numel()] = given[chosen]


def copy_all_layer_kv_cache_cpu(pointers: Tensor, strides: Tensor, to: Tensor, source: Tensor) -> None:
    """Copy rows of each layer's cache, which is given by its address and the bytes of a row."""
    for address, size in zip(pointers.tolist(), strides.tolist(), strict=False):
        rows = [ctypes.string_at(address + row * size, size) for row in source.tolist()]
        for row, data in zip(to.tolist(), rows, strict=False):
            ctypes.memmove(address + row * size, data, size)


def verify_tree_greedy_cpu(
    *,
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Walk each draft tree from its root along the tokens that the target model itself would have written."""
    written = target_predict.reshape(-1)
    requests, most = accept_index.shape
    for i in range(requests):
        last, node, accepted = int(retrive_index[i, 0]), 0, 0
        accept_index[i, 0] = last
        while accepted + 1 < most:
            wanted, node = int(written[last]), int(retrive_next_token[i, node])
            while node != -1 and int(candidates[i, node]) != wanted:
                node = int(retrive_next_sibling[i, node])
            if node == -1:
                break
            predicts[last] = wanted
            accepted, last = accepted + 1, int(retrive_index[i, node])
            accept_index[i, accepted] = last
        accept_token_num[i] = accepted
        predicts[last] = int(written[last])


def _unused(*_: Any) -> None:
    raise NotImplementedError("n-gram drafts need no such kernel")


rotate_input_ids_cpu = _unused
build_tree_kernel_efficient_cpu = _unused
build_draft_decode_metadata_cpu = _unused


def _attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    # Queries are [tokens, heads, size]; a head of the cache serves several of them.
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (each.to(queries.dtype).repeat_interleave(shared, 1).transpose(0, 1) for each in (keys, values))
    found = torch.nn.functional.scaled_dot_product_attention(
        queries.transpose(0, 1), keys, values, attn_mask=mask, scale=scale
    )
    return found.transpose(0, 1)


def _extend(
    q: Tensor,
    _k: Tensor,
    _v: Tensor,
    out: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    _k_scale: float,
    _v_scale: float,
    places: Tensor,
    requests: Tensor,
    lengths: Tensor,
    new_lengths: Tensor,
    starts: Tensor,
    _longest: int,
    scale: float,
    _cap: float,
    _is_cross: bool,
    _window: int,
    _encoder_lengths: Tensor | None,
    _sinks: Tensor | None,
    tree: Tensor | None,
    is_causal: bool,
) -> None:
    """Let each request's new tokens attend to all before them; tokens of a draft tree to their ancestors in it."""
    sizes = (lengths.tolist(), new_lengths.tolist(), starts.tolist(), requests.tolist())
    for i, (length, new, start, row) in enumerate(zip(*sizes, strict=False)):
        before, own = length - new, slice(start, start + new)
        mask = torch.ones(new, length, dtype=torch.bool)
        if tree is not None:
            mask[:, before:] = tree.reshape(-1)[i * new * new : (i + 1) * new * new].view(new, new).bool()
        elif is_causal:
            mask[:, before:] = torch.tril(mask[:, before:])
        at = places[row, :length].long()
        out[own] = _attention(q[own], k_cache[at], v_cache[at], scale, mask)


def _decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    _k_scale: float,
    _v_scale: float,
    out: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    new_places: Tensor,
    _logits: Tensor,
    places: Tensor,
    requests: Tensor,
    lengths: Tensor,
    scale: float,
    _cap: float,
    _is_cross: bool,
    _window: int,
    _encoder_lengths: Tensor | None,
    _sinks: Tensor | None,
) -> None:
    """Let each request's newest token attend to all before it."""
    if k is not None and v is not None:
        k_cache[new_places.long()] = k.view(-1, *k_cache.shape[1:]).to(k_cache.dtype)
        v_cache[new_places.long()] = v.view(-1, *v_cache.shape[1:]).to(v_cache.dtype)
    for i, (row, length) in enumerate(zip(requests.tolist(), lengths.tolist(), strict=False)):
        at = places[row, :length].long()
        out[i : i + 1] = _attention(q[i : i + 1], k_cache[at], v_cache[at], scale, None)


_LIBRARY.define(
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) out, Tensor k_cache, Tensor v_cache, "
    "float k_scale, float v_scale, Tensor places, Tensor requests, Tensor lengths, Tensor new_lengths, Tensor starts, "
    "int longest, float scale, float cap, bool is_cross, int window, Tensor? encoder_lengths, Tensor? sinks, "
    "Tensor? tree, bool is_causal) -> ()"
)
_LIBRARY.define(
    "decode_attention_cpu(Tensor q, Tensor(b!) k_cache, Tensor(c!) v_cache, float k_scale, float v_scale, "
    "Tensor(a!) out, Tensor? k, Tensor? v, Tensor new_places, Tensor logits, Tensor places, Tensor requests, "
    "Tensor lengths, float scale, float cap, bool is_cross, int window, Tensor? encoder_lengths, Tensor? sinks) -> ()"
)
_LIBRARY.impl("extend_attention_cpu", _extend, "CPU")
_LIBRARY.impl("decode_attention_cpu", _decode, "CPU")
