"""How speed and memory are measured: the `measure:` section of a config."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class MeasureSettings(BaseModel):
    """Latency is of `batch_size` rows, throughput of `throughput_batch_size` rows, both of `length` tokens.

    Variants take turns for `rounds` rounds on `threads` threads, after `warmup` rounds that are not counted, so that
    a busy neighbour slows all of them alike. 40 rounds give a median steady to a few per cent on a quiet machine.
    Each is started `starts` times in a process of its own for cold start and peak memory; 0 leaves both out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    batch_size: int = Field(default=1, ge=1)
    throughput_batch_size: int = Field(default=8, ge=1)
    length: int = Field(default=128, ge=2)
    threads: int = Field(default=1, ge=1)
    rounds: int = Field(default=40, ge=1)
    warmup: int = Field(default=5, ge=0)
    starts: int = Field(default=3, ge=0)
