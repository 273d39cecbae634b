"""What the page shows of the probes of language models, read from planted findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_run import metric, models, write_run
from test_build import page_of

from assay.core.manifest import write_json
from reports.build import trades
from reports.claims import best_trade, claims
from reports.collect import Run, collect
from reports.compare import markdown, summary
from reports.findings import missing
from reports.rows import kept, rows

PARADIGM = {"paradigm": "wh_gap", "field": "gaps", "n": 40, "accuracy": 0.875, "low": 0.74, "high": 0.95}
RELATION = {
    "relation": "capital-of", "candidates_p_at_1": 0.625, "candidates_p_at_10": 0.9, "candidates_mrr": 0.7, "n": 8,
    "majority": 0.125, "best_prompt": {"prompt": "[Y] is <b> of France", "p_at_1": 0.75},
}  # fmt: skip
WORD = {"row": 17, "before": "he ate the ", "word": "parliament", "bits": 21.5, "teacher_bits": 3.25}


def planted(folder: Path, variant: str, probe: str, details: dict[str, Any], **values: float) -> None:
    metrics = [{"name": name, "value": value, "unit": "fraction", "higher_is_better": None, "n": 1, "low": None,
                "high": None} for name, value in values.items()]  # fmt: skip
    write_json(folder / "results" / variant / "probes" / f"{probe}.json", {
        "key": "k", "probe": probe, "settings": {}, "variant": variant, "examined": "graph", "metrics": metrics,
        "details": details, "skipped": None, "failed": None, "seconds": 1.0,
    })  # fmt: skip


def test_paradigms_relations_and_words_are_shown_beside_figures_that_only_a_variant_has(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    teacher, *_, variant = [model.name for model in models() if model.state == "done"]
    planted(folder, teacher, "minimal_pairs", {"paradigms": [PARADIGM]}, pairs_accuracy=0.875)
    lost = {"paradigms": [PARADIGM | {"accuracy": 0.55, "won": 2, "lost": 15}]}
    planted(folder, variant, "minimal_pairs", lost, pairs_accuracy=0.55, pairs_change=-0.325)
    planted(folder, teacher, "cloze", {"relations": [RELATION]}, cloze_p_at_1=0.625)
    planted(folder, variant, "surprisal", {"most_surprising": [WORD]}, word_surprisal=9.5)
    texts = page_of(folder).texts
    for told in ("Pairs change", "-0.325", f"Paradigms, {teacher}", "wh_gap", "15", "capital-of", "0.625"):
        assert told in texts, told
    assert "[Y] is <b> of France" in texts  # as text, not as markup
    assert texts[texts.index("parliament") - 1].strip() == "he ate the"
    assert texts.count("wh_gap") == 2


def language_run(folder: Path, **about: Any) -> Run:
    """The made-up run as one of a language model; `about` is what the evaluation of `int8`, its best trade, says."""
    chosen = [model for model in models() if model.state == "done"]
    write_run(folder, chosen, task="text-generation", labels=())
    for model in chosen:
        accuracy = metric("token_accuracy", 1 - model.wrong / 120, 0.7, 0.9)
        evaluation = {"artifact_key": f"key-{model.name}", "paired": True, "skipped": None, "metrics": [accuracy]}
        evaluation |= about if model.name == "int8" else {}
        write_json(folder / "results" / model.name / "evaluation.json", evaluation)
    return collect(folder)


def test_a_variant_that_was_asked_for_other_tokens_is_not_held_against_its_teacher(tmp_path: Path) -> None:
    alike, unlike = (language_run(tmp_path / str(paired), paired=paired) for paired in (True, False))
    variants = [variant for run in (alike, unlike) if (variant := run.variant("int8"))]
    assert kept(alike, variants[0]) == pytest.approx(101 / 102)
    assert kept(unlike, variants[1]) is None
    best = [run and run.name for run in map(best_trade, (alike, unlike))]
    assert best == ["int8", "fewer_heads"]  # the next that keeps enough
    assert [point.name for point in trades(unlike)[0].points].count("int8") == 0
    assert [point.name for point in trades(alike)[0].points].count("int8") == 1
    assert [row["paired"] for row in rows(unlike)] == [True, True, False, True, True]
    assert next(line.kept for line in summary(unlike) if line.name == "int8") == "other tokens"
    why = "its vocabulary is not the teacher's, so that it was asked for other tokens"
    assert f"int8: {why}" in markdown(unlike)
    assert why not in markdown(alike)
    assert any(claim.startswith("int8 has token accuracy 0.842") and why in claim for claim in claims(unlike))
    assert [what for names, what, reason in missing(unlike) if why in reason] == ["comparison with the teacher"]
    assert any(why in text for text in page_of(tmp_path / "False").texts)


def test_an_evaluation_without_a_figure_tells_its_reason_in_table_summary_and_page(tmp_path: Path) -> None:
    reason = "none of the 120 test texts has a token that can be asked for"
    run = language_run(tmp_path / "run", metrics=[], skipped=reason)
    assert f"int8: no figures, {reason}." in markdown(run)
    assert any(claim.startswith(f"int8 has no figures: {reason}.") for claim in claims(run))
    assert ("int8", "evaluation", f"skipped, because {reason}") in missing(run)
    assert any(reason in text for text in page_of(tmp_path / "run").texts)
    assert not any("int8 is not evaluated yet" in claim for claim in claims(run))
