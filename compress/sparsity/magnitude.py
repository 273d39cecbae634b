"""The smallest weights go (Han et al. 2015, "Learning both Weights and Connections"). Looks at no rows."""

from __future__ import annotations

from compress.sparsity.subject import Subject


def prune(subject: Subject) -> None:
    """In place, by |w|."""
    subject.zero(subject.matrices, [each.weight.abs().float() for each in subject.matrices])
