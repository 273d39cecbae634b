"""Syntax trees read from a model without training anything, against a treebank.

Dependency trees from the impact of words on each other, by masking them (Wu et al. 2020) or by leaving them out (after
Rosa and Marecek 2019); phrases from the distances of neighbouring words (Kim et al. 2020). See `probe/induction/`.
Where `structure` asks whether trees can be learnt from the states, here nothing is learnt, so what is found is the
model's own. Sentences with a word that is not whole in the model are left out and counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from assay.core.errors import NotGiven
from assay.core.metric import Metric
from probe.against_teacher import change_metric, with_teacher
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.silver.trees import check_source, parser_of, sentences_of, source_file
from probe.tree_reading import TreeReading
from probe.treebank import Sentence

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.induction.reading import TreeReader

Way = Literal["masking", "deletion", "distances"]
Readings = dict[Way, TreeReading]
SETTING = "trees.treebank"
FEWEST_WORDS = 3  # punctuation left out: two have one tree
HEADLINE = "projective"


class TreesProbe(Probe):
    """`sentences` of the CoNLL-U file `treebank`, or with `silver` of the job's parsed test rows, are drawn among those
    of 3 to `most_words` words without punctuation.
    `right_bias` leans the splits of `distances` to trees that branch to the right."""

    needs: ClassVar[Needs] = "states"

    treebank: str = Field(min_length=1)
    ways: list[Way] = Field(["masking", "deletion", "distances"], min_length=1)
    sentences: PositiveInt = 100
    most_words: int = Field(20, ge=FEWEST_WORDS)
    right_bias: float = Field(0.0, ge=0)

    def inputs(self) -> list[Path]:
        return [source_file(self.treebank, SETTING)]

    def silver(self) -> str | None:
        return parser_of(self.treebank)

    def check(self) -> None:
        check_source(self.treebank, SETTING, trees=True)

    def tiny(self) -> TreesProbe:
        return self.model_copy(update={"sentences": 4, "most_words": 8})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the projective tree and of the best measure of distance, with their differences
        to the teacher's on the same sentences. A way that the model does not allow is skipped with its reason."""
        sentences = sentences_of(self.treebank, SETTING, ctx, "test", self.sentences, self._fits, trees=True)
        own, theirs = with_teacher(self, model, ctx, lambda of: self._examine(of, ctx, sentences))
        reasons = dict.fromkeys(reading.skipped for reading in own.values() if reading.skipped)
        if all(reading.skipped for reading in own.values()):
            return Findings(skipped="; ".join(reasons))
        tasks = [_told(way, reading, (theirs or {}).get(way)) for way, reading in own.items()]
        return Findings([metric for task in tasks for metric in _metrics(task)], {"tasks": tasks})

    def _fits(self, sentence: Sentence) -> bool:
        return FEWEST_WORDS <= len(sentence.spoken) <= self.most_words

    def _examine(self, model: Predictor, ctx: ProbeContext, sentences: list[Sentence]) -> Readings:
        from probe.induction.reading import TreeReader

        reader = TreeReader.of(ctx.states.of(model), sentences)
        return {way: self._read(way, reader) for way in dict.fromkeys(self.ways)}

    def _read(self, way: Way, reader: TreeReader) -> TreeReading:
        from probe.induction.impact import impact_by_deletion, impact_by_masking

        if way == "distances":
            return reader.phrases(self.right_bias)
        try:
            return reader.attachments(impact_by_masking if way == "masking" else impact_by_deletion)
        except NotGiven as reason:
            return TreeReading(str(reason))


def _told(way: Way, own: TreeReading, theirs: TreeReading | None) -> dict[str, Any]:
    """Plain data of one way; `change` is the headline figure less the teacher's, None for the teacher itself."""
    change = None
    if theirs and not (own.skipped or theirs.skipped):
        change = own.change(_headline(way, own), theirs, _headline(way, theirs))
    return {"task": way, "skipped": own.skipped, **own.told, "change": change}


def _headline(way: Way, reading: TreeReading) -> Any:
    """What the headline figure is read from."""
    from probe.induction.phrases import Curve

    best = reading.told.get("best", {})
    return Curve(best["measure"], best["layer"], best["head"]) if way == "distances" else (HEADLINE, "uuas")


def _metrics(task: dict[str, Any]) -> list[Metric]:
    if task["skipped"]:
        return []
    name, change = task["task"], task["change"]
    metrics = _phrase_metrics(task) if name == "distances" else _attachment_metrics(task)
    return metrics + ([change_metric(f"{name}_change", change)] if change else [])


def _attachment_metrics(task: dict[str, Any]) -> list[Metric]:
    name, n = task["task"], task["edges"]
    tree = next(each for each in task["trees"] if each["tree"] == HEADLINE)
    scores = [
        Metric(f"{name}_{score}", tree[score], "fraction", None, n, tree[f"{score}_low"], tree[f"{score}_high"])
        for score in ("uuas", "uas")
    ]
    chain = max(task["baselines"]["word_before_uas"], task["baselines"]["word_after_uas"])
    return [
        *scores,
        Metric(f"{name}_chain_uuas", task["baselines"]["word_after_uuas"], "fraction", None, n),
        Metric(f"{name}_chain_uas", chain, "fraction", None, n),
    ]


def _phrase_metrics(task: dict[str, Any]) -> list[Metric]:
    best, n = task["best"], task["sentences"]
    known = max(task["baselines"][name] for name in ("left_branching", "right_branching", "balanced", "random"))
    return [
        Metric("distances_f1", best["f1"], "fraction", None, n, best["low"], best["high"]),
        Metric("distances_held_out_f1", task["held_out_f1"], "fraction", None, n),
        Metric("distances_baseline_f1", known, "fraction", None, n),
        Metric("distances_most_f1", task["baselines"]["most"], "fraction", None, n),
    ]
