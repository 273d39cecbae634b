from __future__ import annotations

import pytest

from assay.core.metric import Metric
from reports import units


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (units.size(22_900_000), "22.9 MB"),
        (units.size(412_000), "412 kB"),
        (units.size(1_340_000_000), "1.34 GB"),
        (units.size(None), "–"),
        (units.milliseconds(3.8), "3.80 ms"),
        (units.milliseconds(1234.4), "1,234 ms"),
        (units.times(5.21), "5.2×"),
        (units.times(0.561), "0.56×"),
        (units.times(0.9967), "1.0×"),
        (units.percent(0.9789), "97.9 %"),
        (units.probability(0.0002), "< 0.001"),
        (units.seconds(312.4), "5 min 12 s"),
        (units.seconds(7800), "2 h 10 min"),
        (units.figure(84.0, "rows"), "84"),
        (units.figure(410.0, "MiB"), "410 MiB"),
        (units.figure(2.345, "nats"), "2.35 nats"),
        (units.significant(0.0000213), "2.1e-05"),
        (units.title("macro_f1"), "Macro F1"),
        (units.word("macro_f1"), "macro F1"),
        (units.title("brand_new"), "Brand new"),
    ],
)
def test_figures_read_well(given: str, shown: str) -> None:
    assert given == shown


def test_a_metric_has_its_interval_where_there_is_one() -> None:
    assert units.metric(Metric("accuracy", 0.8452, "fraction", True, 1000, 0.8214, 0.866)) == "0.845 (0.821 to 0.866)"
    assert units.metric(Metric("ece", 0.05, "fraction", False, 1000)) == "0.050"
    assert units.metric(Metric("spearman", None, "correlation", True, 1)) == "–"
    assert units.metric(None) == "–"
