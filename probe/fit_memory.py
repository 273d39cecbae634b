"""Whether what a probe wants of memory is there, asked before its texts are read.

The vectors of all layers stay in memory where texts have one vector each (`probe/layer_states.py`); those of words
(`probe/probes/tokens.py`) are taken layer by layer. A layer whose classifiers are fitted is there several times over:
standardised, whitened, and waiting for its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import psutil

from assay.core.errors import NoRoom

if TYPE_CHECKING:
    from probe.shared_states import SharedStates

COPIES = 7  # of a layer's vectors, in the precision of its fit: two wait (`at_once.AHEAD`), five at the peak of a fit
GIB = 2**30


def check_memory(what: str, need_bytes: int, advice: str) -> None:
    """NoRoom where this is more than the memory that is free."""
    free = psutil.virtual_memory().available
    if need_bytes > free:
        raise NoRoom(f"{what} take about {need_bytes / GIB:.1f} GiB of memory, {free / GIB:.1f} GiB are free: {advice}")


def check_fit_memory(
    model: SharedStates, texts: Sequence[str], vectors: int, held: int = 0, number_bytes: int = 4
) -> None:
    """NoRoom where the classifiers of all layers, each fitted and scored on so many `vectors`, want more memory than
    is free. `texts` are some that will be read, of which the widths of the layers are learnt.

    held: how many vectors of each layer stay in memory for each that is fitted: the poolings, or none;
    number_bytes: of a number in the fits"""
    widths = model.widths(texts)
    if not widths:
        return
    import torch

    fits = len(widths) * max(held, 1)
    at_once = COPIES * number_bytes * max(widths) * min(torch.get_num_threads(), fits)
    what = f"the fits of {fits} layers of {model.artifact.path.name} on {vectors:,} vectors each"
    advice = "lower the samples" + (", or name one pooling" if held > 1 else "")
    check_memory(what, vectors * (4 * held * sum(widths) + at_once), advice)
