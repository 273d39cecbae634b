"""The summary in words. Every claim carries the figures it stands on.

A gain in size or speed is given against both fp32 baselines, and speed only with both latencies. Zeros are never a
gain: they are stored and multiplied like any other weight. Where a figure is missing the claim is left out or says so.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.core.cpu import EXACT_INT8
from assay.core.metric import Metric
from reports import units
from reports.collect import Run, Variant
from reports.rows import OTHER_TOKENS, Baseline, baselines, grew, kept, quality, quality_name

TINY = "A tiny run with a stand-in model: it shows that the job works, its figures mean nothing."
# DistilBERT's well-known trade, 97 % of the quality, is the bar for "a good trade".
KEEP = 0.97
# Ratios closer to one than this are within what repeated measurement moves.
CLEAR = 1.05
# Rounding to int8 alone turns a few percent of the weights to zero; more than this was made on purpose.
ZEROS = 0.1
GAINS = ("latency_ms_p50", "size_bytes")
Unit = Callable[[float | None], str]


def claims(run: Run) -> list[str]:
    """The best trade first, then what each other variant kept and gained, then what is not finished and why."""
    done = [variant for variant in run.variants if variant.role == "variant" and variant.state == "done"]
    best = best_trade(run)
    lines = [*_state(run), _praise(run, best) if best else _no_trade(run, done)]
    lines += [_about(run, variant) for variant in done if variant is not best]
    lines += [_unfinished(variant) for variant in run.variants if variant.state != "done"]
    return [line for line in lines if line]


def best_trade(run: Run) -> Variant | None:
    """The fastest variant (the smallest where speed is not measured) of those that keep enough and gain anything.

    Enough is 97 % of the teacher's quality; a gain is to be clearly smaller or faster than both fp32 baselines."""
    good = [variant for variant in run.variants if _is_good(run, variant)]
    return min(good, key=lambda variant: variant.measurement[_cost(good)]) if good else None


def _is_good(run: Run, variant: Variant) -> bool:
    done = variant.role == "variant" and variant.state == "done"
    return done and (kept(run, variant) or 0) >= KEEP and _gains(run, variant)


def _cost(variants: list[Variant]) -> str:
    timed = all(variant.measurement.get("latency_ms_p50") for variant in variants)
    return "latency_ms_p50" if timed else "size_bytes"


def _praise(run: Run, best: Variant) -> str:
    good = [variant for variant in run.variants if _is_good(run, variant)]
    word = "fastest" if _cost(good) == "latency_ms_p50" else "smallest"
    rule = f"the {word} of those that keep at least {100 * KEEP:.0f} % of the teacher's {_quality_word(run)}"
    return f"Best trade: {best.name}, {rule}. {_about(run, best)}"


def _no_trade(run: Run, done: list[Variant]) -> str:
    shares = {variant.name: share for variant in done if (share := kept(run, variant)) is not None}
    if not shares or not any(variant.measurement for variant in done):
        return ""
    name = max(shares, key=lambda each: shares[each])
    gaps = any(_beats_all(run, variant, key) is None for variant in done for key in GAINS)
    return (
        f"No variant is a clear trade: none keeps at least {100 * KEEP:.0f} % of the teacher's {_quality_word(run)} "
        f"and is smaller or faster than both fp32 baselines{', as far as measured' * gaps}. "
        f"{name} keeps most, {units.percent(shares[name])}."
    )


def _state(run: Run) -> list[str]:
    known = [
        (run.tiny, TINY),
        (run.finished is None, "The run is not finished: what follows is what there is so far."),
        (not any(v.measurement for v in run.variants), "Size and speed are not measured yet."),
    ]
    return [text for applies, text in known if applies]


def _gains(run: Run, variant: Variant) -> bool:
    """Clearly smaller or clearly faster than every baseline there is; a baseline never gains on itself."""
    return any(_beats_all(run, variant, key) for key in GAINS)


def _beats_all(run: Run, variant: Variant, key: str) -> bool | None:
    """None where there is a figure missing, so that it is not known."""
    ratios = [base.gain(variant, key) for base in baselines(run)]
    known = [ratio for ratio in ratios if ratio is not None]
    if any(ratio < CLEAR for ratio in known):
        return False
    return True if known and len(known) == len(ratios) else None


def _about(run: Run, variant: Variant) -> str:
    parts = [_kept(run, variant), _size(run, variant), _speed(run, variant), _zeros(run, variant)]
    return " ".join(part for part in parts if part)


def _quality_word(run: Run) -> str:
    name = quality_name(run)
    return units.word(name) if name else "quality"


def _kept(run: Run, variant: Variant) -> str:
    name, share = quality_name(run), kept(run, variant)
    if variant.stale:
        return f"{variant.name} has changed since it was evaluated; those results are left out."
    if name is None or quality(run, variant) is None:
        return f"{variant.name} {f'has no figures: {variant.skipped}' if variant.skipped else 'is not evaluated yet'}."
    ours, full = _with_interval(variant.metrics[name]), run.teacher.metrics.get(name) if run.teacher else None
    if variant.paired is False:
        return f"{variant.name} has {_quality_word(run)} {ours}; {OTHER_TOKENS}."
    if share is None or full is None:
        return f"{variant.name} has {_quality_word(run)} {ours}."
    told = f"{variant.name} keeps {units.percent(share)} of the teacher's {_quality_word(run)}"
    return f"{told}: {ours} against {units.metric(full, interval=False)}{_test(variant)}."


def _with_interval(metric: Metric) -> str:
    return units.metric(metric).replace("(", "(95 % interval ")


def _test(variant: Variant) -> str:
    found = next((metric for name, metric in variant.metrics.items() if name.startswith("mcnemar")), None)
    if found is None or found.value is None:
        return ""
    p = units.probability(found.value)
    return f"; McNemar p {p if p.startswith('<') else '= ' + p}"


def _size(run: Run, variant: Variant) -> str:
    ours = variant.measurement.get("size_bytes")
    if ours is None:
        return ""
    against = _against(run, variant, "size_bytes", units.size, "smaller than", "larger than", "the same size as")
    return f"{'The file grew: it' if grew(run, variant) else 'It'} is {units.size(ours)}, {against}." if against else ""


def _speed(run: Run, variant: Variant) -> str:
    ours = variant.measurement.get("latency_ms_p50")
    against = _against(run, variant, "latency_ms_p50", units.milliseconds, "faster than", "slower than", "as fast as")
    if ours is None or not against:
        return ""
    told = f"At p50 {_batch(run)} takes {units.milliseconds(ours)}, {against}."
    beats = _beats_all(run, variant, "latency_ms_p50")
    if beats is None:
        return f"{told} Whether it is faster than both fp32 baselines is not measured."
    if beats or not _integer(variant):
        return told
    return f"{told} Its int8 weights do not make it faster than both fp32 baselines: {_why_not_faster(run, variant)}."


def _batch(run: Run) -> str:
    batch, length = (run.measured_with.get(name) for name in ("batch_size", "length"))
    if batch and run.has_images:
        return f"a batch of {batch} image{'s' * (batch > 1)}"
    return f"a batch of {batch} × {length} tokens" if batch and length else "a batch"


def _against(run: Run, variant: Variant, key: str, unit: Unit, better: str, worse: str, same: str) -> str:
    others = [base for base in baselines(run) if base.variant.name != variant.name]
    told = [
        _ratio(base, at > 0, base.gain(variant, key), key, unit, (better, worse, same))
        for at, base in enumerate(others)
    ]
    return " and ".join(told)


def _ratio(base: Baseline, again: bool, ratio: float | None, key: str, unit: Unit, words: tuple[str, str, str]) -> str:
    """`again` when the sentence has named the teacher already: "4.0× faster than in ONNX Runtime (15.0 ms)"."""
    (better, worse, same), name = words, f"in {base.short}" if again else base.words
    if ratio is None:
        return f"with no figure of {base.words} to compare"
    full = f"{name} ({unit(base.variant.measurement[key])})"
    if 1 / CLEAR < ratio < CLEAR:
        return f"about {same} {full}"
    return f"{units.times(ratio)} {better} {full}" if ratio > 1 else f"{units.times(1 / ratio)} {worse} {full}"


def _integer(variant: Variant) -> bool:
    """True for a variant with quantized weights."""
    return any(step.step.startswith("quantize") for step in variant.steps)


def _why_not_faster(run: Run, variant: Variant) -> str:
    if variant.measurement.get("integer_ops") == 0:
        return "the optimised graph runs no integer operation, so the weights are turned back to floats and run as such"
    if _has_vnni(run) is False:
        return "this CPU has no VNNI instructions, which int8 products gain most from"
    return "rounding the activations of each layer may cost what the integer products save"


def _has_vnni(run: Run) -> bool | None:
    """Whether the CPU multiplies int8 natively; None where the record does not say."""
    flags = (run.measured_on.get("flags") or run.machine.get("flags")) or {}
    known = [bool(flags[name]) for name in EXACT_INT8 if name in flags]
    return any(known) if known else None


def _zeros(run: Run, variant: Variant) -> str:
    share = _zero_share(variant)
    if share is None or share < ZEROS:
        return ""
    return (
        f"{units.percent(share)} of its {units.count(variant.measurement['parameters'])} parameters are zero; zeros "
        f"are stored and multiplied like any other weight, so they count as no gain."
    )


def _zero_share(variant: Variant) -> float | None:
    total, nonzero = (variant.measurement.get(name) for name in ("parameters", "nonzero_parameters"))
    return 1 - nonzero / total if total and nonzero is not None else None


def _unfinished(variant: Variant) -> str:
    reasons = [variant.error, *(step.error for step in variant.steps)]
    reason = next((text for text in reasons if text), "no reason was recorded")
    return f"{variant.name} failed: {reason}" if variant.state == "failed" else f"{variant.name} is waiting: {reason}"
