"""A share drawn for a text by a hash: of the seed and the text alone, so the same in training and test rows."""

from __future__ import annotations

from hashlib import sha256


def drawn_share(text: str, seed: int, purpose: str = "") -> float:
    """In [0, 1), even over texts; shares drawn for one `purpose` tell nothing of those for another."""
    return int.from_bytes(sha256(f"{purpose}{seed} {text}".encode()).digest()[:6]) / 2**48
