"""Print what compression forgot in a finished run, as the table of docs/forgotten.md.

    assay run configs/forgotten.yaml
    python docs/measure/forgotten.py runs/forgotten

Every share of right answers that a probe compared with the teacher's item by item, with its change in each variant.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reports.collect import collect
from reports.forgotten import forgotten, is_clear
from reports.rows import kept
from reports.units import change, fraction, percent


def main() -> None:
    """Read the run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder")
    run = collect(parser.parse_args().run)
    table = forgotten(run)
    print(f"{run.started}, {run.machine['cpu']}, seed {run.seed}; silver: {', '.join(table.parsers) or 'nothing'}\n")
    row(["probe", "asked", "items", "teacher", *table.variants])
    row(["---", "---", *["---:"] * (2 + len(table.variants))])
    shares = {variant.name: percent(kept(run, variant)) for variant in run.variants}
    row(["", "accuracy kept", "", percent(1.0), *(shares[name] for name in table.variants)])
    for known in table.rows:
        score = known.score
        cells = [f"**{change(each)}**" if is_clear(each) else change(each) for each in known.changes]
        row([known.probe, known.asked, str(score.n if score else ""), fraction(score.value if score else None), *cells])


def row(cells: Sequence[str]) -> None:
    """One line of a markdown table."""
    print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
