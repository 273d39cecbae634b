"""What kinds of tokens there are. In any language: separators, tokens without a letter or digit, the commonest words,
and all others. Of an image: the model's own tokens, and patches.

The commonest are the fewest tokens that make up half of the job's training texts (without separators and punctuation).
In most languages these are function words and their like, so the rest are mostly words of content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from assay.core.artifact import is_image

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from probe.heads.rarity import TokenCounts
    from probe.probe import ProbeContext

KINDS = ("separators", "punctuation", "common_words", "other_words")
SEPARATOR, PUNCTUATION, COMMON, OTHER = range(len(KINDS))
COMMON_SHARE = 0.5
BROKEN = "\ufffd"  # what is shown for a part of a character


def kinds_for(encoder: Any, ctx: ProbeContext) -> TokenKinds | PatchKinds:
    """The kinds of what `encoder`, of texts or of images, gives a model."""
    from probe.heads.rarity import count_tokens

    if is_image(ctx.data.task):
        return PatchKinds()
    return TokenKinds(encoder.tokenizer, count_tokens(encoder, ctx.data.train.texts, ctx.seed))


class PatchKinds:
    """Kinds of the tokens of images."""

    names = ("separators", "patches")

    def of(self, ids: Tensor, special: Tensor) -> np.ndarray:
        """Positions in `names` for tokens [...]."""
        return (~special).numpy().astype(np.int64)


@dataclass
class TokenKinds:
    """Kinds of the tokens of one tokenizer, by their counts in the training texts."""

    names: ClassVar[tuple[str, ...]] = KINDS

    tokenizer: PreTrainedTokenizerBase
    counts: TokenCounts
    known: dict[int, bool] = field(default_factory=dict)
    common: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        counts = self.counts.counts.clone()
        special = [at for at in self.tokenizer.all_special_ids if at < len(counts)]
        counts[special] = 0
        seen = counts.nonzero()[:, 0].tolist()
        words = [at for at in seen if not self.is_punctuation(at)]
        words.sort(key=lambda at: (-int(counts[at]), at))
        reached = np.cumsum([int(counts[at]) for at in words])
        needed = int(np.searchsorted(reached, COMMON_SHARE * reached[-1])) + 1 if words else 0
        self.common = frozenset(words[:needed])

    def of(self, ids: Tensor, special: Tensor) -> np.ndarray:
        """Positions in `KINDS` for tokens [...]; `special` are separators."""
        flat = zip(ids.flatten().tolist(), special.flatten().tolist(), strict=True)
        found = [SEPARATOR if own else self._kind(token) for token, own in flat]
        return np.array(found, dtype=np.int64).reshape(ids.shape)

    def is_punctuation(self, token: int) -> bool:
        """Whether a token has no letter or digit in it, nor a part of one."""
        if token not in self.known:
            text = self.tokenizer.decode([token])
            self.known[token] = not any(sign.isalnum() or sign == BROKEN for sign in text)
        return self.known[token]

    def _kind(self, token: int) -> int:
        if self.is_punctuation(token):
            return PUNCTUATION
        return COMMON if token in self.common else OTHER


def shares(weights: np.ndarray, kinds: np.ndarray, count: int) -> np.ndarray:
    """[count]: how much of `weights` [tokens] is on the tokens of each kind."""
    return np.bincount(kinds, weights, minlength=count)
