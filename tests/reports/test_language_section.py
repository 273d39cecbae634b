"""What the page shows of the probes of language models, read from planted findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_up_run import models, write_run
from test_build import page_of

from assay.core.manifest import write_json

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
