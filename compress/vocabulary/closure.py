"""What must stay in a vocabulary so that a tokenizer still works, and works the same on the texts it was cut for.

WordPiece (Schuster & Nakajima 2012) takes the longest piece that fits, from left to right. Without the pieces it did
not use it takes the same ones. A word it could not cover must stay uncovered, so the pieces it took before stay too.
Byte-pair encoding (Sennrich et al. 2016) applies merges in order; a token that stays needs every token on its way.
Unigram (Kudo 2018) takes the best-scored path; a path whose pieces all stay is still the best. What an unknown
character costs depends on the lowest score, so the piece that has it stays.

Single characters stay, so that a word outside the texts falls into pieces instead of becoming unknown.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

from assay.core.errors import SettingError
from compress.vocabulary.tokenizer_json import ids_of, merged, merges_of, with_ids

Alphabet = Literal["seen", "all"]


class Closure:
    """Which tokens of one `tokenizer.json` belong together. `ids` maps every token to its id; `unknown` is the token
    for what cannot be written in others, None where bytes are encoded, which need none."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data, self.model = data, data["model"]
        self.ids = ids_of(data)
        self.unknown = _unknown(self.model)

    def essential(self, used: Iterable[str], alphabet: Alphabet) -> set[str]:
        """Tokens that stay whatever the texts: added and unknown ones, those of the post-processor, the alphabet.

        The alphabet is every single character, or only those `seen` in the tokens `used` by the texts; all bytes of a
        byte-level encoding, and all byte tokens where characters can fall back on them."""
        named = {token["content"] for token in self.data.get("added_tokens") or []} | self._named_by_id()
        seen = None if alphabet == "all" else {character for token in used for character in self._bare(token)}
        single = {token for token in self.ids if len(bare := self._bare(token)) == 1 and (seen is None or bare in seen)}
        unknown = {self.unknown} if self.unknown in self.ids else set()
        return named | single | self._bytes() | unknown | self._lowest()

    def group(self, token: str) -> set[str]:
        """The token and all that lead to it by merges."""
        found, waiting = set(), [token]
        while waiting:
            part = waiting.pop()
            if part not in found:
                found.add(part)
                waiting += self._parts.get(part, ())
        return found

    def choose(self, counts: Mapping[str, int], essential: set[str], most: int | None = None) -> set[str]:
        """`essential` tokens and the counted ones, the most frequent first, with what they need, up to `most` in all.

        SettingError where the essential ones are more than that."""
        kept: set[str] = set().union(*(self.group(token) for token in essential))
        if most is not None and len(kept) > most:
            raise SettingError("cut_vocab.max_tokens", f"{most} is too few: {len(kept)} tokens are special or alphabet")
        for token, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            new = self.group(token) - kept
            if most is not None and len(kept) + len(new) > most:
                break
            kept |= new
        return kept

    def failed_on(self, word: str) -> set[str]:
        """The pieces that WordPiece takes from `word` before it finds none; empty for the other kinds."""
        if self.model["type"] != "WordPiece":
            return set()
        taken: set[str] = set()
        start = 0
        while start < len(word):
            prefix = self.model["continuing_subword_prefix"] if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.ids), None)
            if end is None:
                return taken
            taken.add(prefix + word[start:end])
            start = end
        return taken

    @cached_property
    def _parts(self) -> dict[str, set[str]]:
        parts: dict[str, set[str]] = defaultdict(set)
        for pair in merges_of(self.model) if self.model["type"] == "BPE" else ():
            parts[merged(pair, self.model)].update(pair)
        return parts

    def _bare(self, token: str) -> str:
        """The token without the marks of its place in a word."""
        prefix, suffix = (self.model.get(mark) or "" for mark in ("continuing_subword_prefix", "end_of_word_suffix"))
        return token.removeprefix(prefix).removesuffix(suffix)

    def _named_by_id(self) -> set[str]:
        named: set[int] = {self.data["padding"]["pad_id"]} if self.data.get("padding") else set()

        def note(index: int) -> int:
            named.add(index)
            return index

        with_ids(self.data.get("post_processor"), note)
        return {token for token, index in self.ids.items() if index in named}

    def _bytes(self) -> set[str]:
        from tokenizers.pre_tokenizers import ByteLevel

        steps = json.dumps([self.data.get("pre_tokenizer"), self.data.get("normalizer")])
        names = set(ByteLevel.alphabet()) if '"ByteLevel"' in steps else set()
        if self.model.get("byte_fallback"):
            names |= {f"<0x{byte:02X}>" for byte in range(256)}
        return names & self.ids.keys()

    def _lowest(self) -> set[str]:
        return {min(self.model["vocab"], key=lambda entry: entry[1])[0]} if self.model["type"] == "Unigram" else set()


def _unknown(model: dict[str, Any]) -> str | None:
    if model["type"] != "Unigram":
        return model.get("unk_token")
    return None if model.get("unk_id") is None else model["vocab"][model["unk_id"]][0]
