"""Several batches at once, one thread each: for batches of short texts faster than all threads on one batch."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Batch = TypeVar("Batch")
Answer = TypeVar("Answer")
AHEAD = 2  # batches a worker that are begun and not yet taken: what is in memory does not grow with their number


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_once(answer: Callable[[Batch], Answer], batches: Iterable[Batch], workers: int) -> Iterator[Answer]:
    """`answer` of each batch, in order. `answer` runs in `workers` threads and must let go of Python's lock while it
    computes, as torch and onnxruntime do. Batches are drawn as they are needed, at most `AHEAD` a worker beforehand."""
    begun: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for batch in batches:
            begun.append(pool.submit(answer, batch))
            if len(begun) == AHEAD * workers:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


@contextmanager
def one_torch_thread_each() -> Iterator[int]:
    """Torch computes on the calling thread alone while this lasts; gives the number of threads it had."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)
