"""What each attention head does, and which heads a variant lost.

Roles: a fixed position, rare tokens, separators, the first token (`probe/heads/roles.py`), with a treebank syntactic
relations (`relations.py`). Shapes of maps in the five classes of Kovaleva et al. 2019 (`patterns.py`). Likeness of all
pairs of heads, a plane of them and clusters (`divergence.py`, `arrangement.py`). With a treebank the trees that heads
give (`trees.py`). Of a variant: the roles that the full model's heads had which it lacks (`lost.py`).

Self-attention only: the attention of a decoder to its encoder is not looked at. Where a head looks does not show that
the model uses it (Jain and Wallace 2019).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, PositiveInt

from assay.core.artifact import is_image
from assay.core.errors import NotGiven
from assay.core.metric import Metric
from probe.against_teacher import with_teacher
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.sample import draw_rows
from probe.silver.trees import check_source, parser_of, sentences_of, source_file
from probe.treebank import Sentence

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor

Told = dict[str, Any]
SETTING = "heads.treebank"
FEWEST_WORDS = 2  # of a sentence, punctuation left out: one word has no tree


class HeadsProbe(Probe):
    """`samples` rows of the test split are read, and `sentences` of the CoNLL-U file `treebank`, if there is one,
    or with `silver` of the parsed test rows.
    Likeness is taken from at most `tokens_per_text` tokens of a text. `positional` and `mass`: see `Least` in
    `probe/heads/roles.py`."""

    version: ClassVar[int] = 3
    needs: ClassVar[Needs] = "torch"
    images: ClassVar[bool] = True

    samples: PositiveInt = 500
    treebank: str | None = Field(None, min_length=1)
    sentences: PositiveInt = 500
    tokens_per_text: PositiveInt = 16
    clusters: PositiveInt = 6
    positional: float = Field(0.9, gt=0, le=1)
    mass: float = Field(0.9, gt=0, le=1)

    def inputs(self) -> list[Path]:
        return [] if self.treebank is None else [source_file(self.treebank, SETTING)]

    def silver(self) -> str | None:
        return parser_of(self.treebank)

    def check(self) -> None:
        if self.treebank is not None:
            check_source(self.treebank, SETTING, trees=True)

    def tiny(self) -> HeadsProbe:
        return self.model_copy(update={"samples": 16, "sentences": 16})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics count heads by role, and of a variant the lost ones by the role they had; `details` hold
        every head. Patches of images are tokens in a plane, none of them rarer than others. NotGiven from a model
        that shows no attention, or no tokenizer, and where a treebank is named for one of images."""
        from probe.heads.lost import lost_heads

        if self.treebank is not None and is_image(ctx.data.task):
            raise NotGiven("heads.treebank holds sentences, and the rows of this job are images")
        own, full = with_teacher(self, model, ctx, lambda of: self._examine(of, ctx))
        if not own["heads"] or not own["n_rows"]:
            return Findings(skipped=f"{own['n_rows']} texts of two tokens or more, {len(own['heads'])} heads")
        lost = None if full is None else lost_heads(full["heads"], own["heads"], full["repeats"], own["repeats"])
        return Findings(_headline(own, lost), own | {"lost": lost})

    def _examine(self, model: Predictor, ctx: ProbeContext) -> Told:
        from assay.core.model.repeats import repeats_of
        from probe.heads.rarity import count_tokens
        from probe.heads.reading import Reader
        from probe.heads.roles import Least
        from probe.white_box import as_white_box
        from probe.word_pieces import encoder_of

        encoder = encoder_of(ctx.states.of(model))
        counts = count_tokens(encoder, [] if is_image(ctx.data.task) else ctx.data.train.texts, ctx.seed)
        reader = Reader(as_white_box(model), encoder, counts, ctx.seed, Least(self.positional, self.mass))
        rows = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.samples, ctx.seed))
        told = reader.read_texts(rows.texts, self.tokens_per_text, self.clusters)
        told |= {"repeats": {str(number): layer for number, layer in repeats_of(model.artifact).items()}}
        if self.treebank is None:
            return told
        sentences = sentences_of(self.treebank, SETTING, ctx, "test", self.sentences, _has_a_tree, trees=True)
        return _with_trees(told, reader.read_trees(sentences))


def _has_a_tree(sentence: Sentence) -> bool:
    return len(sentence.spoken) >= FEWEST_WORDS


def _with_trees(told: Told, trees: Told) -> Told:
    """What texts and sentences told, as one; heads that follow a relation are `syntactic`."""
    found = trees["heads"] or [{"relations": []} for _ in told["heads"]]
    heads = [
        head | more | {"roles": head["roles"] + ["syntactic"] * bool(more["relations"])}
        for head, more in zip(told["heads"], found, strict=True)
    ]
    about = {name: value for name, value in trees.items() if name != "heads"}
    if best := about.pop("best", None):
        at = heads[best.pop("place")]
        about["best"] = {"layer": at["layer"], "head": at["head"], **best}
    return told | {"heads": heads, "trees": about}


def _headline(own: Told, lost: Told | None) -> list[Metric]:
    heads = own["heads"]
    metrics = _role_counts(heads, "trees" in own) + _lost_counts(lost)
    trees = own.get("trees", {})
    if best := trees.get("best"):
        bounds = (best["low"], best["high"])
        metrics.append(Metric("best_head_uuas", best["uuas"], "fraction", None, trees["edges"], *bounds))
        metrics.append(Metric("next_word_uuas", trees["next_word_uuas"], "fraction", None, trees["edges"]))
    return metrics


def _role_counts(heads: list[Told], with_trees: bool) -> list[Metric]:
    from probe.heads.lost import NONE, has
    from probe.heads.roles import NAMES

    names = [name for name in (*NAMES, NONE) if with_trees or name != "syntactic"]
    counts = [(name, sum(has(head["roles"], name) for head in heads)) for name in names]
    return [Metric(_metric(name), count, "count", None, len(heads)) for name, count in counts]


def _lost_counts(lost: Told | None) -> list[Metric]:
    """Heads lost of all, and of those with each role in the full model."""
    if lost is None:
        return []
    by_role = [
        Metric(f"lost_{_metric(each['role'])}", each["lost"], "count", None, each["of"]) for each in lost["by_role"]
    ]
    return [Metric("lost_heads", len(lost["heads"]), "count", None, lost["of"]), *by_role]


def _metric(role: str) -> str:
    return f"{'without_role' if role == 'no role' else role.replace(' ', '_')}_heads"
