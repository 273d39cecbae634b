"""What probes on a treebank share: the two files, what is drawn of them, and the check before any training."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, PositiveInt

from probe.probe import Needs, Probe, ProbeContext
from probe.silver.trees import check_source, parser_of, sentences_of, source_file
from probe.treebank import Sentence


class TreebankProbe(Probe):
    """`samples` sentences of the CoNLL-U file `train` fit the probe, `test_samples` of the file `test` score it; in
    place of a file `silver` has the job's own rows of that split parsed.

    `trees`: whether the heads of each sentence must form a tree; `fewest_words` (punctuation left out): whether shorter
    sentences are passed over."""

    needs: ClassVar[Needs] = "states"
    trees: ClassVar[bool] = False
    fewest_words: ClassVar[int] = 0

    train: str = Field(min_length=1)
    test: str = Field(min_length=1)
    samples: PositiveInt = 1000
    test_samples: PositiveInt = 500

    def inputs(self) -> list[Path]:
        return [source_file(address, setting) for address, setting in self._sources]

    def silver(self) -> str | None:
        return parser_of(self.train, self.test)

    def check(self) -> None:
        for source in self._sources:
            check_source(*source, self.trees)

    def sentences(self, ctx: ProbeContext) -> tuple[list[Sentence], list[Sentence]]:
        """Those drawn for training and for testing. InputError where a file is not what it should be."""
        (train, train_setting), (test, test_setting) = self._sources
        fit = sentences_of(train, train_setting, ctx, "train", self.samples, self._long_enough, self.trees)
        known = {sentence.words for sentence in fit}
        count = self.test_samples
        return fit, sentences_of(test, test_setting, ctx, "test", count, self._long_enough, self.trees, known)

    @property
    def _sources(self) -> list[tuple[str, str]]:
        """Each with the setting that names it."""
        name = type(self).__module__.rpartition(".")[2]
        return [(self.train, f"{name}.train"), (self.test, f"{name}.test")]

    def _long_enough(self, sentence: Sentence) -> bool:
        return len(sentence.spoken) >= self.fewest_words
