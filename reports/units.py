"""Figures as people read them: bytes, milliseconds, ratios, intervals. `–` stands for what is not there."""

from __future__ import annotations

import math

from assay.core.metric import Metric

NOTHING = "–"

TITLES = {
    "accuracy": "Accuracy",
    "macro_f1": "Macro F1",
    "micro_f1": "Micro F1",
    "label_loyalty": "Label loyalty",
    "probability_loyalty": "Probability loyalty",
    "flips": "Flips",
    "ece": "Calibration error (ECE)",
    "mcnemar_p": "McNemar p",
    "cka_last_layer": "CKA, last layer",
    "cka_mean_same_layer": "CKA, mean over layers",
    "svcca_last_layer": "SVCCA, last layer",
    "rsa_last_layer": "RSA, last layer",
    "procrustes_last_layer": "Procrustes distance, last layer",
    "anisotropy_last_layer": "Anisotropy, last layer",
    "isotropy_last_layer": "IsoScore, last layer",
    "intrinsic_dimension_last_layer": "Intrinsic dimension, last layer",
    "best_head_uuas": "UUAS, best head",
    "next_word_uuas": "UUAS, next word",
    "masking_uuas": "UUAS by masking",
    "masking_uas": "UAS by masking",
    "masking_chain_uuas": "UUAS of a chain, beside masking",
    "masking_chain_uas": "UAS of the better chain, beside masking",
    "masking_change": "UUAS by masking, change",
    "deletion_uuas": "UUAS by deletion",
    "deletion_uas": "UAS by deletion",
    "deletion_chain_uuas": "UUAS of a chain, beside deletion",
    "deletion_chain_uas": "UAS of the better chain, beside deletion",
    "deletion_change": "UUAS by deletion, change",
    "distances_f1": "Bracket F1, best distance",
    "distances_held_out_f1": "Bracket F1, distance chosen on other sentences",
    "distances_baseline_f1": "Bracket F1, best baseline",
    "distances_most_f1": "Bracket F1, most that can be",
    "distances_change": "Bracket F1, change",
    "without_role_heads": "Heads without a role",
    "lost_without_role_heads": "Lost heads without a role",
    "token_kl": "Divergence a token",
    "triples_auc": "Triples, area under the curve",
    "triples_pmi": "Triples, mutual information",
    "weight_spearman_length": "Weight and length, rank correlation",
    "weight_spearman_contribution": "Weight and contribution, rank correlation",
    "mse": "Mean squared error",
    "mae": "Mean absolute error",
    "size_bytes": "Size",
    "latency_ms_p50": "Latency p50",
    "latency_ms_p95": "Latency p95",
    "cpu_ms_p50": "CPU time p50",
    "throughput_per_s": "Texts a second",
    "peak_rss_mib": "Peak memory",
    "cold_start_s": "Cold start",
    "nonzero_parameters": "Non-zero parameters",
    "cpu": "CPU",
    "memory_gib": "Memory, GiB",
    "integer_ops": "Integer operations",
    "ops": "Operations of the graph",
}


def title(name: str) -> str:
    """The reader's name of a snake_case figure."""
    text = TITLES.get(name) or name.replace("_", " ")
    return text[:1].upper() + text[1:]


def word(name: str) -> str:
    """The reader's name within a sentence: accuracy, macro F1."""
    text = title(name)
    return text[:1].lower() + text[1:]


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits without an exponent for everyday sizes: 0.0123, 3.80, 1,234."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-4:
        return f"{value:.2g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def size(value: float | None) -> str:
    """Bytes in decimal units, as download pages give them: 412 kB, 22.9 MB."""
    if value is None:
        return NOTHING
    for unit, bytes_each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= bytes_each:
            return f"{significant(value / bytes_each)} {unit}"
    return f"{value:g} B"


def milliseconds(value: float | None) -> str:
    """27.0 ms."""
    return NOTHING if value is None else f"{significant(value)} ms"


def count(value: float | None) -> str:
    """1,234,567."""
    return NOTHING if value is None else f"{value:,.0f}"


def fraction(value: float | None) -> str:
    """Three decimals: 0.845."""
    return NOTHING if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """A share of one as 97.9 %."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def times(value: float | None) -> str:
    """A ratio as 5.2×; losses with two decimals, whole numbers above a hundred."""
    if value is None:
        return NOTHING
    return f"{value:.2f}×" if value < 0.995 else f"{value:.1f}×" if value < 100 else f"{value:,.0f}×"


def probability(value: float | None) -> str:
    """A p value, small ones as a bound."""
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """12.3 s, 4 min 05 s, 2 h 10 min."""
    if value is None:
        return NOTHING
    if value < 60:
        return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def figure(value: float | None, unit: str = "") -> str:
    """A figure of any unit."""
    if value is None:
        return NOTHING
    if unit in ("fraction", "share", "probability", "correlation", "distance"):
        return fraction(value)
    if unit == "rows":
        return count(value)
    text = count(value) if float(value).is_integer() and abs(value) < 1e15 else significant(value)
    return text if unit in ("", "count", "perplexity", "ratio") else f"{text} {unit}"


def change(item: Metric | None) -> str:
    """A difference of shares with its sign and 95 % interval: +0.012 (−0.004 to +0.028)."""
    return " ".join(part for part in change_parts(item) if part)


def change_parts(item: Metric | None) -> tuple[str, str]:
    """The same as difference and interval, which is empty where there is none."""
    if item is None or item.value is None:
        return NOTHING, ""
    if item.low is None or item.high is None:
        return _signed(item.value), ""
    return _signed(item.value), f"({_signed(item.low)} to {_signed(item.high)})"


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text.replace("-", "−")


def metric(item: Metric | None, interval: bool = True) -> str:
    """A metric with its 95 % interval where there is one: 0.845 (0.821 to 0.866)."""
    if item is None or item.value is None:
        return NOTHING
    text = figure(item.value, item.unit)
    if not interval or item.low is None or item.high is None:
        return text
    return f"{text} ({figure(item.low, item.unit)} to {figure(item.high, item.unit)})"
