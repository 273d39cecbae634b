"""Which heads of the full model a variant lacks, and what they did there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from probe.heads.roles import NAMES

Heads = Sequence[Mapping[str, Any]]
NONE = "no role"


def lost_heads(full: Heads, own: Heads) -> dict[str, Any]:
    """`full` and `own`: the told heads of both models, with layer, head and roles in the full model's numbers.

    Of each role of the full model: heads lost, heads kept, and kept ones that still have it (`still`)."""
    here = {(head["layer"], head["head"]): head["roles"] for head in own}
    lost = [head for head in full if (head["layer"], head["head"]) not in here]
    return {
        "of": len(full),
        "heads": [{"layer": head["layer"], "head": head["head"], "roles": head["roles"]} for head in lost],
        "by_role": [counts for name in (*NAMES, NONE) if (counts := _count(name, full, here))["of"]],
    }


def _count(name: str, full: Heads, here: Mapping[tuple[int, int], Sequence[str]]) -> dict[str, Any]:
    numbers = [(head["layer"], head["head"]) for head in full if has(head["roles"], name)]
    kept = [number for number in numbers if number in here]
    still = sum(has(here[number], name) for number in kept)
    counts = {"of": len(numbers), "lost": len(numbers) - len(kept), "kept": len(kept), "still": still}
    return {"role": name, **counts}


def has(roles: Sequence[str], name: str) -> bool:
    """Whether a head with these roles has that one; one without any has `no role`."""
    return name in roles if name != NONE else not roles
