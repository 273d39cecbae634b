"""Which heads of the full model a variant lacks, and what they did there.

A head of a layer that is run again is there as long as the layer itself or one of its repeats is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from probe.heads.roles import NAMES

Head = Mapping[str, Any]
Heads = Sequence[Head]
Repeats = Mapping[str, int]
NONE = "no role"


def lost_heads(full: Heads, own: Heads, full_repeats: Repeats, own_repeats: Repeats) -> dict[str, Any]:
    """`full` and `own`: the told heads of both models, with layer, head and roles in the full model's numbers;
    `..._repeats`: the layer that each repeat repeats, by the repeat's number as text.

    Of each role of the full model: heads lost, heads kept, and kept ones that still have it (`still`)."""
    found = [_roles_here(head, own, full_repeats, own_repeats) for head in full]
    lost = [head for head, roles in zip(full, found, strict=True) if roles is None]
    return {
        "of": len(full),
        "heads": [{"layer": head["layer"], "head": head["head"], "roles": head["roles"]} for head in lost],
        "by_role": [counts for name in (*NAMES, NONE) if (counts := _count(name, full, found))["of"]],
    }


def _roles_here(head: Head, own: Heads, full_repeats: Repeats, own_repeats: Repeats) -> list[str] | None:
    """The roles that a head of the full model has in the other one: those of the layer of its number where it is there,
    else of all its repeats together. None where it is gone."""
    layer = _original(head, full_repeats)
    same = [each for each in own if each["head"] == head["head"] and _original(each, own_repeats) == layer]
    same = [each for each in same if each["layer"] == head["layer"]] or same
    return list(dict.fromkeys(role for each in same for role in each["roles"])) if same else None


def _original(head: Head, repeats: Repeats) -> int:
    return repeats.get(str(head["layer"]), head["layer"])


def _count(name: str, full: Heads, found: Sequence[Sequence[str] | None]) -> dict[str, Any]:
    here = [roles for head, roles in zip(full, found, strict=True) if has(head["roles"], name)]
    kept = [roles for roles in here if roles is not None]
    still = sum(has(roles, name) for roles in kept)
    return {"role": name, "of": len(here), "lost": len(here) - len(kept), "kept": len(kept), "still": still}


def has(roles: Sequence[str], name: str) -> bool:
    """Whether a head with these roles has that one; one without any has `no role`."""
    return name in roles if name != NONE else not roles
