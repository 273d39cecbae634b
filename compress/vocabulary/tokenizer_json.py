"""A `tokenizer.json` as plain data: which tokens it has, and the same tokenizer with some of them only.

The tokens that stay keep their order and close up: the n-th of them gets id n, as the rows of the embedding do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import AssayError, InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

KINDS = ("BPE", "Unigram", "WordPiece")
FILE, SETTINGS = "tokenizer.json", "tokenizer_config.json"
NewId = Callable[[int], int]


def read(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The `tokenizer.json` of a live tokenizer; InputError where it has none, or one of a kind that cannot be cut."""
    core = getattr(tokenizer, "backend_tokenizer", None)
    if core is None:
        raise InputError(f"{type(tokenizer).__name__} has no tokenizer.json; convert it to a fast tokenizer first")
    data = json.loads(core.to_str())
    if data["model"].get("type") not in KINDS:
        raise InputError(f"a {data['model'].get('type')} tokenizer cannot be cut; {', '.join(KINDS)} can")
    return data


def ids_of(data: dict[str, Any]) -> dict[str, int]:
    """Token -> id, added tokens included."""
    model = data["model"]
    pieces = model["vocab"]
    known = {piece: index for index, (piece, _) in enumerate(pieces)} if model["type"] == "Unigram" else dict(pieces)
    return known | {token["content"]: token["id"] for token in data.get("added_tokens") or []}


def merges_of(model: dict[str, Any]) -> list[tuple[str, str]]:
    """The merges of a byte-pair encoding, first to last; older files write both halves as one text."""
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
    return [(left, right) for left, right in pairs]


def merged(pair: tuple[str, str], model: dict[str, Any]) -> str:
    """The token that a merge makes; the second half loses the mark of a token that goes on within a word."""
    left, right = pair
    return left + right.removeprefix(model.get("continuing_subword_prefix") or "")


def cut(data: dict[str, Any], keep: Collection[int]) -> dict[str, Any]:
    """The `tokenizer.json` with the tokens of the ids `keep`, renumbered. Ids without a token are no harm.

    `keep` must be closed (`closure.Closure`): KeyError where the tokenizer itself names a token that is not kept."""
    new = _new_ids(keep)
    kept = {token: new[old] for token, old in ids_of(data).items() if old in new}
    added = [{**token, "id": new[token["id"]]} for token in data.get("added_tokens") or []]
    out = {**data, "model": _cut_model(data["model"], kept), "added_tokens": added}
    if data.get("padding"):
        old = data["padding"]["pad_id"]  # whoever pads sets it; until then it may be the id of no token
        out["padding"] = {**data["padding"], "pad_id": new.get(old, old)}
    return out | {"post_processor": with_ids(data.get("post_processor"), new.__getitem__)}


def with_ids(processor: Any, new_id: NewId) -> Any:
    """The `post_processor` with `new_id` of every id in it: templates hold lists of ids, the older kinds pairs."""
    if processor is None:
        return None
    out = dict(processor)
    if "processors" in out:
        out["processors"] = [with_ids(part, new_id) for part in out["processors"]]
    if isinstance(out.get("special_tokens"), dict):
        tokens = out["special_tokens"].items()
        out["special_tokens"] = {name: {**token, "ids": [new_id(i) for i in token["ids"]]} for name, token in tokens}
    for name in ("cls", "sep"):
        if name in out:
            token, old = out[name]
            out[name] = [token, new_id(old)]
    return out


def _cut_model(model: dict[str, Any], kept: dict[str, int]) -> dict[str, Any]:
    if model["type"] == "Unigram":
        pieces = [entry for entry in model["vocab"] if entry[0] in kept]
        unknown = model.get("unk_id")
        return {**model, "vocab": pieces, "unk_id": None if unknown is None else kept[model["vocab"][unknown][0]]}
    out = {**model, "vocab": {token: kept[token] for token in model["vocab"] if token in kept}}
    if model["type"] == "BPE":
        merges = [pair for pair in merges_of(model) if {*pair, merged(pair, model)} <= kept.keys()]
        out["merges"] = [list(pair) for pair in merges]
    return out


def save_cut(
    tokenizer: PreTrainedTokenizerBase, data: dict[str, Any], keep: Collection[int], out: Path
) -> PreTrainedTokenizerBase:
    """Write the cut tokenizer into `out`, which holds the model's config, and return it as it opens from there.

    `data` is what `read` gave. Vocabularies in other formats are left out, so that no file says something else; saving
    the result writes them anew from the cut one where transformers can (not sentencepiece). AssayError where the ids
    that come back are not those asked for."""
    from assay.core.model.generations import open_tokenizer, save_tokenizer

    save_tokenizer(tokenizer, out)
    for name in {*tokenizer.vocab_files_names.values(), "added_tokens.json"} - {FILE}:
        (out / name).unlink(missing_ok=True)
    (out / FILE).write_text(json.dumps(cut(data, keep), ensure_ascii=False), encoding="utf-8")
    new = _new_ids(keep)
    _renumber_settings(out / SETTINGS, new)
    saved = open_tokenizer(out)
    if saved.get_vocab() != {token: new[old] for token, old in ids_of(data).items() if old in new}:
        raise AssayError(f"{type(saved).__name__}: the cut tokenizer opens with other tokens or ids than were written")
    return saved


def _new_ids(keep: Collection[int]) -> dict[int, int]:
    return {old: position for position, old in enumerate(sorted(keep))}


def _renumber_settings(path: Path, new: dict[int, int]) -> None:
    """Added tokens are listed by id in the settings as well."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    listed = settings.get("added_tokens_decoder")
    if listed:
        settings["added_tokens_decoder"] = {str(new[int(old)]): token for old, token in listed.items()}
        path.write_text(json.dumps(settings, indent=2, ensure_ascii=False), encoding="utf-8")
