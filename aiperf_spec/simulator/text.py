"""Guess the category of a prompt, count its tokens and make up the text of an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

CATEGORIES: tuple[str, ...] = (
    "coding",
    "humanities",
    "math",
    "multilingual",
    "qa",
    "rag",
    "reasoning",
    "roleplay",
    "stem",
    "summarization",
    "writing",
)

# (pattern, weight). What tells one category apart weighs more than what merely suits it, and the frame
# of a prompt ("summarize", "using only the context") more than its subject.
_CLUES: Mapping[str, tuple[tuple[str, float], ...]] = MappingProxyType(
    {
        "coding": (
            (r"```|\bdef \w+\(|#include\b|\bimport \w+\n|\bclass \w+[:({]|\bSELECT\b.+\bFROM\b", 4),
            (r"\bfunc \w+\(|=> ?\{|\bconst \w+ =|\bpub fn\b|\bpublic static\b", 4),
            (r"\b(python|javascript|typescript|rust|golang|java|c\+\+|sql|bash|regex|pytest|html|css)\b", 2),
            (r"\b(refactor|unit tests?|stack trace|traceback|compile|docstring|bug|api endpoint)\b", 2),
            (r"\b(function|method|code|script|query|loop|variable)\b", 1),
        ),
        "humanities": (
            (r"\b(histor\w+|philosoph\w+|ethic\w*|empire|treaty|revolution|renaissance|medieval)\b", 2),
            (r"\b(literature|novelists?|painters?|painting|poets?|religio\w+|politic\w+|colonial\w*)\b", 1.5),
            (r"\b(stoic\w*|kant\w*|enlightenment|sociolog\w+|anthropolog\w+|archaeolog\w+)\b", 2),
            (r"\b(century|war|society|culture|cultural|movement)\b", 1),
        ),
        "math": (
            (r"\b(integral|derivative|equation|polynomial|matrix|eigenvalues?|theorem|modulo)\b", 3),
            (r"\b(probability|triangle|circumference|prime numbers?|factorial|arithmetic|algebra)\b", 2),
            (r"\b(solve for|prove that|how many ways|compute|calculate|evaluate)\b", 2),
            (r"\d\s*[-+*/^=]\s*\d|\bx\^\d|\\frac|\bx\s*=|\bpercent\b|\bper (hour|kg|litre)\b", 1.5),
            (r"\b(how much|how far|how long|total cost)\b", 1),
        ),
        "multilingual": (
            (r"\btranslate\b|\btranslation\b|\bübersetz\w*|\btradui\w+|\btraduc\w+|翻译|翻訳", 5),
            (r"\b(in|into|from|to) (french|german|spanish|italian|japanese|chinese|korean|arabic)\b", 2),
            (r"\b(in|into|from|to) (portuguese|hindi|russian|polish|turkish|dutch|vietnamese)\b", 2),
            (r"[一-鿿぀-ヿ가-힯]{6,}|[Ѐ-ӿ]{4,}|[؀-ۿ]{4,}|[ऀ-ॿ]{4,}", 3),
            (r"\b(quelle|pourquoi|comment|warum|welche|erkläre|cómo|cuáles|explica|perché)\b", 3),
        ),
        "qa": (
            (r"^(what|who|when|where|which|how (many|tall|old|do|does|often))\b[^\n]{0,160}\?\s*$", 3),
            (r"\b(what is the (capital|difference|name)|who (wrote|invented|discovered|painted))\b", 2),
            (r"\b(in one sentence|short answer|answer briefly|just the answer)\b", 3),
        ),
        "rag": (
            (r"\b(using|based on|from) (only )?(the|these|this) (\w+ )?(context|passages?|documents?)\b", 5),
            (r"\b(context|passages?|documents?|sources?|excerpts?|search results?) ?(\d+)?:", 3),
            (r"^\[\d+\] ", 3),
            (r"\b(cite|according to the (context|passage|document|excerpt|text)|not in the context)\b", 3),
        ),
        "reasoning": (
            (r"\b(step by step|logic puzzle|deduce|riddle|who is lying|which of the following must)\b", 4),
            (r"\b(puzzle|knights? and knaves|constraints?|assumptions?|trade-?offs?|counterargument)\b", 2),
            (r"\b(if all|must be true|sits? (next to|between|opposite)|exactly one of|clues?)\b", 3),
            (r"\b(reason|argue|conclude|conclusion|plan)\b", 1),
        ),
        "roleplay": (
            (r"\b(you are|you're|act as|pretend to be|play the (role|part) of|stay in character)\b", 2),
            (r"\b(stay in character|in character|roleplay|role-play|pretend|persona|dungeon master)\b", 4),
            (r"\b(pirate|wizard|detective|innkeeper|captain|knight|dragon|villain|ghost)\b", 1.5),
        ),
        "stem": (
            (r"\b(physics|chemistry|chemical|biolog\w+|molecul\w+|electrons?|photons?|quantum)\b", 2),
            (r"\b(dna|rna|enzymes?|proteins?|cells?|bacteri\w+|thermodynamic\w*|entropy|voltage)\b", 2),
            (r"\b(reaction|velocity|orbit\w*|plate tectonics|semiconductors?|photosynthesis|circuit)\b", 2),
            (r"\b(explain (how|why)|mechanism|experiment|temperature|pressure|energy)\b", 1),
        ),
        "summarization": (
            (r"\b(summari[sz]e|summary|tl;?dr|condense|key points|main points|executive summary)\b", 5),
            (r"\b(bullet points|in (two|three|\d+) sentences|headline|minutes of the meeting)\b", 2),
        ),
        "writing": (
            (r"\b(write|draft|compose) (me )?(an?|the|some) (\w+[- ]){0,3}", 2),
            (r"\b(poem|haiku|sonnet|story|cover letter|blog post|essay|speech|lyrics|toast)\b", 3),
            (r"\b(e-?mail|newsletter|product description|opening paragraph|slogan|tone|rewrite)\b", 2),
        ),
    }
)
_COMPILED = tuple(
    (category, tuple((re.compile(p, re.IGNORECASE | re.MULTILINE), w) for p, w in _CLUES[category]))
    for category in CATEGORIES
)
# Of a long prompt the beginning and the end say what is wanted; the rest is material.
_EDGE = 4000

_CODE_WORDS = """
def return self . items ( ) : for index in range len values if not None and == += [ ] yield lambda result
# naïve TODO → λ while try except raise ValueError café import
"""
_FOREIGN_WORDS = """
今日は 天気が 良い です 模型 推理 速度 很 快 안녕하세요 세계 être déjà où forêt Straße für größer señal mañana
corazón привет мир скорость مرحبا 🌍 und the word bonjour
"""
_PLAIN_WORDS = """
the of and a to in is that it was for on are with as at by from this which have an or one draft token accepted
step model target answer because therefore however each value time café naïve façade Zürich 東京 数据 🙂 🚀
“quoted” – résumé ½ Ångström
"""
_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"coding": tuple(_CODE_WORDS.split()), "multilingual": tuple(_FOREIGN_WORDS.split())}
)
_OTHER_WORDS = tuple(_PLAIN_WORDS.split())


def guess_category(prompt: str) -> str:
    """Guess which of the eleven categories a prompt belongs to, "qa" when nothing tells."""
    text = prompt if len(prompt) <= 2 * _EDGE else prompt[:_EDGE] + "\n" + prompt[-_EDGE:]
    best, best_score = "qa", 0.0
    for category, clues in _COMPILED:
        score = sum(weight * min(3, len(found)) for clue, weight in clues if (found := clue.findall(text)))
        if score > best_score:
            best, best_score = category, score
    return best


def count_tokens(text: str) -> int:
    """Estimate the number of tokens of a prompt: its words, or a quarter of its bytes if that is more."""
    return max(1, len(text.split()), len(text.encode("utf-8", "surrogatepass")) // 4)


def token_text(category: str, seed: int, position: int) -> str:
    """Return the text of the token at a position of an answer; never empty."""
    words = _WORDS.get(category, _OTHER_WORDS)
    # A multiplicative walk is enough: the text has to be stable and varied, not meaningful.
    word = words[((seed >> 7) + (position + 1) * 2654435761 + (position * position * 40503)) % len(words)]
    return word if position == 0 else " " + word
