"""Keep only the tokens that the training texts use, in the word embedding and in the tokenizer (Abdaoui et al. 2020,
"Load What You Need: Smaller Versions of Multilingual BERT").

The tokens that stay mean what they meant, so texts made of them get the logits they had, bit for bit. A word outside
falls into smaller pieces. Small models win most: half of MiniLM is its word embedding. Does not retrain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from assay.core.address import resolve
from assay.core.artifact import Artifact, is_image
from assay.core.errors import InputError, SettingError
from compress.step import Context, Step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from assay.core.model.edits import KeepVocab
    from assay.core.model.layout import Layout
    from compress.vocabulary.closure import Closure


class CutVocab(Step):
    """A token stays when the training texts, with the lines of the text `files`, hold it at least `min_count` times;
    the most frequent ones where `max_tokens` limits them. What the tokenizer needs stays as well: special tokens, what
    merges into a token, and the `alphabet`, single characters seen in the texts or all there are.

    Which tokens stay is decided without validation and test texts."""

    files: list[str] = Field(default_factory=list)
    min_count: int = Field(default=1, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    alphabet: Literal["seen", "all"] = "seen"

    def inputs(self) -> list[Path]:
        """The text files; SettingError where one is not there."""
        try:
            paths = [resolve(address) for address in self.files]
        except InputError as error:
            raise SettingError("cut_vocab.files", str(error)) from None
        if folders := [str(path) for path in paths if not path.is_file()]:
            raise SettingError("cut_vocab.files", f"{', '.join(folders)} is a folder; name files of text lines")
        return paths

    def check(self, layout: Layout, teacher: Layout | None) -> Layout:
        """Which tokens stay, only texts can tell: the layout has none then."""
        self.inputs()
        return replace(layout, tokens=())

    def check_task(self, task: str, layout: Layout, teacher: Layout | None) -> None:
        """Images have no tokens to leave out."""
        if is_image(task):
            raise SettingError("cut_vocab", "a model of images has no vocabulary to cut; remove it")

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: tokens before and after; coverage, the share of the tokens of texts that are still there in the same
        place, on training and validation texts; the share of unknown tokens in validation texts, before and after; how
        many bytes smaller the weights are."""
        from assay.core.model.load import load_module, load_tokenizer
        from compress.pruning import save_edited
        from compress.vocabulary.closure import Closure
        from compress.vocabulary.texts import read_lines
        from compress.vocabulary.tokenizer_json import read, save_cut

        module, tokenizer = load_module(source), load_tokenizer(source)
        size_before = _size_bytes(module)
        closure = Closure(read(tokenizer))
        texts = [*ctx.data.train.texts, *(line for path in self.inputs() for line in read_lines(path))]
        keep = self._kept(closure, module, texts)
        edit = _edit(keep, closure, source)
        module.config.save_pretrained(out)  # without one no tokenizer opens
        edits = save_edited(source, module, [edit], out, save_cut(tokenizer, closure.data, keep, out))
        return {
            "edits": edits,
            "tokens_before": edit.of,
            "tokens_after": len(keep),
            **_coverage(closure, keep, ctx),
            "bytes_saved": size_before - _size_bytes(module),
        }

    def _kept(self, closure: Closure, module: PreTrainedModel, texts: Sequence[str]) -> set[int]:
        """The present ids of all tokens that stay, those that the config names among them."""
        from assay.core.model.anatomy import family_of
        from assay.core.model.token_ids import needed
        from compress.vocabulary.texts import count, open_tokenizer, uncovered_words

        tokenizer = open_tokenizer(closure.data)
        counts = count(tokenizer, texts)
        essential = closure.essential(counts, self.alphabet)
        if closure.unknown in counts:
            words = uncovered_words(tokenizer, texts, closure.unknown)
            essential.update(*(closure.failed_on(word) for word in words))
        frequent = {token: times for token, times in counts.items() if times >= self.min_count}
        chosen = closure.choose(frequent, essential, self.max_tokens)
        return {closure.ids[token] for token in chosen} | needed(module.config, family_of(module.config.model_type))


def _edit(keep: set[int], closure: Closure, source: Artifact) -> KeepVocab:
    """The present ids `keep` by their original ones; InputError where the embedding has no row for a token."""
    from assay.core.model.edits import KeepVocab, layout_of

    present = layout_of(source.config, source.edits).tokens
    if absent := sorted(token for token, index in closure.ids.items() if index in keep and index >= len(present)):
        raise InputError(f"{source.path}: the model has {len(present)} tokens, none for {', '.join(absent)}")
    return KeepVocab([present[index] for index in keep], of=len(present))


def _coverage(closure: Closure, keep: set[int], ctx: Context) -> dict[str, float | None]:
    from compress.vocabulary.texts import coverage, open_tokenizer, share_of
    from compress.vocabulary.tokenizer_json import cut

    before, after = open_tokenizer(closure.data), open_tokenizer(cut(closure.data, keep))
    train, validation = ctx.data.train.texts, ctx.data.validation.texts
    return {
        "coverage_train": coverage(before, after, train),
        "coverage": coverage(before, after, validation),
        "unknown_before": share_of(closure.unknown, before, validation),
        "unknown_after": share_of(closure.unknown, after, validation),
    }


def _size_bytes(module: PreTrainedModel) -> int:
    return sum(parameter.nbytes for parameter in module.parameters())
