"""All that is found of the heads of one model, from one pass over texts and one over a treebank's sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probe.heads.arrangement import Arrangement, arrange
from probe.heads.divergence import DivergenceSums
from probe.heads.made_patterns import CLASSES
from probe.heads.maps import HeadList, maps_of
from probe.heads.patterns import PatternSums
from probe.heads.places import standing_of
from probe.heads.relations import RelationSums
from probe.heads.roles import Least, RoleSums
from probe.heads.trees import TreeSums
from probe.heads.word_attention import most_attended, word_attention
from probe.treebank import Sentence
from probe.word_pieces import align

if TYPE_CHECKING:
    from assay.core.model.encoder import Encoder
    from assay.core.model.predict import WhiteBox
    from probe.heads.rarity import TokenCounts

Told = dict[str, Any]
ROUNDED = 5  # digits of divergences and places


@dataclass(frozen=True)
class Reader:
    """A model, its tokenizer, how often its tokens occur, and from what on a head has a role; `seed` is that of the
    classifier of patterns."""

    model: WhiteBox
    encoder: Encoder
    counts: TokenCounts
    seed: int
    least: Least

    def read_texts(self, texts: Sequence[str], queries: int, clusters: int) -> Told:
        """`heads` with roles, pattern and place among the others, and what holds for all of them together."""
        heads = HeadList.of(self.model)
        roles = RoleSums(len(heads.numbers), self.counts, self.least, standing_of(self.encoder))
        patterns = PatternSums(heads, self.seed)
        likeness = DivergenceSums(len(heads.numbers), queries)
        for batch in self.model.states(texts, attentions=True):
            for maps in maps_of(batch, heads):
                for sums in (roles, patterns, likeness):
                    sums.add(maps)
        divergence = likeness.means().numpy()
        arranged = arrange(divergence, clusters)
        columns = (_numbers(heads), roles.told(), _shapes(patterns), _places(arranged))
        return {
            "heads": [number | role | shape | place for number, role, shape, place in zip(*columns, strict=True)],
            "n_rows": likeness.rows,
            "divergence": divergence.round(ROUNDED).tolist(),
            "stress": arranged.stress,
            "pattern_classifier": [each.told() for each in patterns.classifiers],
        }

    def read_trees(self, sentences: Sequence[Sentence]) -> Told:
        """`heads` with the relations that each follows and how well it gives trees, and the best head beside the
        baselines. Sentences with a word that is not whole in the model are `left_out`."""
        heads = HeadList.of(self.model)
        words = align(self.encoder, [each.words for each in sentences])
        whole = [at for at, pieces in enumerate(words.pieces) if all(pieces)]
        relations, trees = RelationSums(len(heads.numbers)), TreeSums()
        for batch in self.model.states([words.texts[at] for at in whole], attentions=True):
            for maps in maps_of(batch, heads):
                for at, weights in zip((whole[row] for row in maps.rows), maps.by_token, strict=True):
                    sentence, among = sentences[at], word_attention(weights, words.pieces[at])
                    relations.add(sentence, most_attended(among))
                    trees.add(sentence, among, sentence.spoken)
        left_out = len(sentences) - len(whole)
        if not trees.edges:
            return {"heads": [], "left_out": left_out, "sentences": 0}
        told = [{"relations": one} | other for one, other in zip(relations.told(), trees.of_heads(), strict=True)]
        return {"heads": told, "left_out": left_out, **trees.told()}


def _numbers(heads: HeadList) -> list[Told]:
    return [{"layer": layer, "head": head} for layer, head in heads.numbers]


def _shapes(patterns: PatternSums) -> list[Told]:
    """Shares of each head's maps by class, and the commonest; None where no text was long enough."""
    every = patterns.shares().tolist()
    named = [CLASSES[shares.index(max(shares))] if max(shares) else None for shares in every]
    return [
        {"pattern": name, "patterns": dict(zip(CLASSES, shares, strict=True))}
        for name, shares in zip(named, every, strict=True)
    ]


def _places(arranged: Arrangement) -> list[Told]:
    return [
        {"cluster": int(cluster), "x": round(x, ROUNDED), "y": round(y, ROUNDED)}
        for cluster, (x, y) in zip(arranged.clusters, arranged.places.tolist(), strict=True)
    ]
