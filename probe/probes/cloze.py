"""What facts a language model knows: LAMA (Petroni et al. 2019, "Language Models as Knowledge Bases?",
https://aclanthology.org/D19-1250).

A prompt asks for the answer at its mask or at its end, and the answer is ranked among all answers of its relation
(typed querying, Kassner et al. 2021), which may have several tokens, and among all single tokens, as in the paper.
Prompts of one relation are averaged (`probe/language/rank_answers.py`). A causal model can only be asked where the
answer ends the prompt; other facts are counted and left out. Figures are means over facts, in the paper over relations.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from assay.core.stats import bootstrap_interval
from probe.against_teacher import change_metric, paired_change, with_teacher
from probe.language.facts import CAPITALS, Fact, capitals, read_facts, read_templates
from probe.language.json_lines import setting_files
from probe.language.rank_answers import Ranks, rank_answers
from probe.language.read_texts import as_language_model
from probe.probe import Findings, Probe, ProbeContext
from probe.rates import rate

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor

MAX_EXAMPLES = 20


class ClozeProbe(Probe):
    """`samples` facts of each relation of the JSONL file or folder `facts`, or of the capitals of countries, are ranked
    among `candidates` answers of their relation. `templates` are JSONL files of `relation` and `template`, for facts
    without prompts of their own."""

    facts: str = Field(CAPITALS, min_length=1)
    templates: str | None = Field(None, min_length=1)
    samples: PositiveInt = 50
    candidates: PositiveInt = 50

    def inputs(self) -> list[Path]:
        return [*self._fact_files(), *self._template_files()]

    def check(self) -> None:
        if self.facts != CAPITALS:
            self._read()

    def tiny(self) -> ClozeProbe:
        return self.model_copy(update={"samples": 4, "candidates": 4})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """NotGiven unless the model names tokens; and for capitals where no package gives them."""
        as_language_model(model, "cloze")
        everything = self._read()
        facts = self._drawn(everything, ctx.seed)
        own, theirs = with_teacher(self, model, ctx, lambda of: self._rank(of, facts, everything, ctx.seed))
        left_out = dict(Counter(each.obstacle for each in own if each.obstacle))
        if sum(left_out.values()) == len(own):
            told = ", ".join(f"{count}: {reason}" for reason, count in left_out.items())
            return Findings(skipped=f"none of {len(own)} facts can be asked; {told}")
        details = {
            "left_out": left_out,
            "unknown": int(np.isinf(_ranks(own)).sum()),
            "relations": [
                {"relation": name, "candidates": self._candidates(name, everything)} | _told(rows, facts, own, theirs)
                for name, rows in _by_relation(facts).items()
            ],
            "examples": _examples(facts, own, theirs),
        }
        return Findings(_headline(facts, own, theirs), details)

    def _fact_files(self) -> list[Path]:
        return [] if self.facts == CAPITALS else setting_files(self.facts, "cloze.facts")

    def _template_files(self) -> list[Path]:
        return [] if self.templates is None else setting_files(self.templates, "cloze.templates")

    def _read(self) -> list[Fact]:
        if self.facts == CAPITALS:
            return capitals()
        return read_facts(self._fact_files(), read_templates(self._template_files()))

    def _drawn(self, facts: list[Fact], seed: int) -> list[Fact]:
        random = Random(seed)
        rows = [
            sorted(random.sample(each.tolist(), min(self.samples, len(each)))) for each in _by_relation(facts).values()
        ]
        return [facts[row] for each in rows for row in each]

    def _rank(self, model: Predictor, facts: list[Fact], everything: list[Fact], seed: int) -> list[Ranks]:
        """Of each fact, in this order, which is by relation."""
        named = as_language_model(model, "cloze")
        known = {name: [everything[row] for row in rows] for name, rows in _by_relation(everything).items()}
        parts = {name: [facts[row] for row in rows] for name, rows in _by_relation(facts).items()}
        return [
            ranks
            for name, part in parts.items()
            for ranks in rank_answers(named, part, known[name], self.candidates, seed)
        ]

    def _candidates(self, relation: str, everything: list[Fact]) -> int:
        return min(self.candidates, len({fact.answer for fact in everything if fact.relation == relation}))


def _by_relation(facts: list[Fact]) -> dict[str, np.ndarray]:
    """Relation -> positions of its facts."""
    rows: dict[str, list[int]] = {}
    for row, fact in enumerate(facts):
        rows.setdefault(fact.relation, []).append(row)
    return {name: np.array(each) for name, each in rows.items()}


def _ranks(found: list[Ranks]) -> np.ndarray:
    """float64 [facts], NaN for those left out."""
    return np.array([np.nan if each.obstacle else each.rank for each in found], dtype=np.float64)


def _within(ranks: np.ndarray, most: int) -> np.ndarray:
    """float64 [facts]: 1 where the rank is `most` at the most, else 0; NaN stays."""
    return np.where(np.isnan(ranks), np.nan, ranks <= most)


def _headline(facts: list[Fact], own: list[Ranks], theirs: list[Ranks] | None) -> list[Metric]:
    ranks = _ranks(own)
    single = np.array([each.in_vocabulary for each in own if each.in_vocabulary is not None], dtype=np.float64)
    asked = [fact for fact, each in zip(facts, own, strict=True) if each.obstacle is None]
    metrics = [
        *_figures("cloze", ranks[~np.isnan(ranks)]),
        *_figures("cloze_vocabulary", single),
        Metric("cloze_majority", _majority(asked), "fraction", None, len(asked)),
    ]
    if theirs is None:
        return metrics
    right, before = _within(ranks, 1), _within(_ranks(theirs), 1)
    change = paired_change(right, before, np.arange(len(right)))
    return [
        *metrics,
        change_metric("cloze_change", change),
        Metric("cloze_won", int((right > before).sum()), "facts", True, change["n"]),
        Metric("cloze_lost", int((right < before).sum()), "facts", False, change["n"]),
    ]


def _figures(name: str, ranks: np.ndarray) -> list[Metric]:
    """P@1, P@10 and the mean reciprocal rank of ranks without NaN."""
    inverse = 1 / ranks
    bounds = bootstrap_interval(lambda values: values.mean(axis=-1), inverse, vectorized=True)
    mean = float(inverse.mean()) if len(inverse) else None
    return [
        rate(f"{name}_p_at_1", int((ranks <= 1).sum()), len(ranks), True),
        rate(f"{name}_p_at_10", int((ranks <= 10).sum()), len(ranks), True),
        Metric(f"{name}_mrr", mean, "fraction", True, len(ranks), *bounds),
    ]


def _majority(facts: list[Fact]) -> float | None:
    """The share right of a model that always gives the commonest answer of the relation."""
    commonest = [
        Counter(facts[row].answer for row in rows).most_common(1)[0][1] for rows in _by_relation(facts).values()
    ]
    return sum(commonest) / len(facts) if facts else None


def _told(rows: np.ndarray, facts: list[Fact], own: list[Ranks], theirs: list[Ranks] | None) -> dict[str, Any]:
    """Figures of one relation, and of the prompts by themselves; the best prompt is best on these very facts, so its
    figure is a little high."""
    asked = [row for row in rows.tolist() if own[row].obstacle is None]
    found = [own[row] for row in asked]
    prompts = [_prompt(number, [facts[row] for row in asked], found) for number in _numbers(found)]
    told: dict[str, Any] = {
        **{metric.name: metric.value for metric in _figures("candidates", _ranks(found))},
        "n": len(asked),
        "majority": _majority([facts[row] for row in asked]),
        "prompts": prompts,
        "best_prompt": max(prompts, key=lambda each: each["p_at_1"], default=None),
    }
    if theirs is not None:
        right, before = (_within(_ranks([each[row] for row in rows]), 1) for each in (own, theirs))
        told["teacher"] = paired_change(right, before, np.arange(len(rows)))
    return told


def _numbers(found: list[Ranks]) -> list[int]:
    return sorted({number for each in found for number in each.by_prompt})


def _prompt(number: int, facts: list[Fact], found: list[Ranks]) -> dict[str, Any]:
    """Of one prompt over the facts that it asks for, shown as that of the first."""
    ranks = [
        (fact, each.by_prompt[number]) for fact, each in zip(facts, found, strict=True) if number in each.by_prompt
    ]
    values = np.array([rank for _, rank in ranks])
    return {
        "prompt": ranks[0][0].prompts[number],
        "n": len(ranks),
        "p_at_1": float((values <= 1).mean()),
        "mrr": float((1 / values).mean()),
    }


def _examples(facts: list[Fact], own: list[Ranks], theirs: list[Ranks] | None) -> list[dict[str, Any]]:
    """Facts that only the teacher knows, or, of the teacher itself, the first ones."""
    right = _within(_ranks(own), 1)
    shown = np.isfinite(right) if theirs is None else right < _within(_ranks(theirs), 1)
    return [
        {
            "subject": facts[row].subject,
            "prompt": facts[row].prompts[0],
            "answer": facts[row].answer,
            "rank": own[row].rank if np.isfinite(own[row].rank) else None,
            "best": own[row].best,
        }
        for row in np.flatnonzero(shown)[:MAX_EXAMPLES]
    ]
