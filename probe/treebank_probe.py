"""What probes on a treebank share: the two files, what is drawn of them, and the check before any training."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, PositiveInt

from probe.numbered_lines import setting_file
from probe.probe import Needs, Probe
from probe.tagged_words import drawn
from probe.treebank import Sentence, read_treebank


class TreebankProbe(Probe):
    """`samples` sentences of the CoNLL-U file `train` fit the probe, `test_samples` of the file `test` score it.

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
        name = type(self).__module__.rpartition(".")[2]
        return [setting_file(self.train, f"{name}.train"), setting_file(self.test, f"{name}.test")]

    def check(self) -> None:
        self.sentences(seed=0)

    def sentences(self, seed: int) -> tuple[list[Sentence], list[Sentence]]:
        """Those drawn for training and for testing. InputError where a file is not what it should be."""
        train, test = (self._long_enough(path) for path in self.inputs())
        return _take(train, self.samples, seed), _take(test, self.test_samples, seed)

    def _long_enough(self, path: Path) -> list[Sentence]:
        sentences = read_treebank(path, self.trees).sentences
        return [each for each in sentences if len(each.spoken) >= self.fewest_words]


def _take(sentences: list[Sentence], count: int, seed: int) -> list[Sentence]:
    return [sentences[at] for at in drawn(len(sentences), count, seed)]
