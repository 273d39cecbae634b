"""The exporters that tests run over: both of them where optimum can be used."""

from __future__ import annotations

import pytest

from assay.core.model.generations import why_no_optimum

EXPORTERS = [
    pytest.param("optimum", marks=pytest.mark.skipif(why_no_optimum() is not None, reason=str(why_no_optimum()))),
    "torch",
]
