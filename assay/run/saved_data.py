"""The rows of a job as files in its run folder, so that report and users see what was examined."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.artifact import is_image
from assay.core.data.prepare import NAMES, JobData, Split
from assay.core.errors import InputError
from assay.core.manifest import key_of, write_atomic, write_json

if TYPE_CHECKING:
    import pandas as pd


def save_data(folder: Path, data: JobData) -> None:
    """Write `train`, `validation` and `test.parquet`, then `data.json`; nothing where they are there already."""
    about = {"fingerprint": data.fingerprint, "labels": list(data.labels), "task": data.task, "notes": data.notes}
    if is_image(data.task):  # images that were moved are the same rows, in other places
        about["places"] = key_of("places", [getattr(data, name).texts for name in NAMES])
    if _saved(folder) == json.loads(json.dumps(about)):
        return
    (folder / "data.json").unlink(missing_ok=True)
    for name in NAMES:
        write_atomic(folder / f"{name}.parquet", as_parquet(_table(getattr(data, name))))
    write_json(folder / "data.json", about)


def read_split(folder: Path, name: str) -> Split:
    """One of the splits that `save_data` wrote; InputError where the run has none of that name yet."""
    import numpy as np
    import pandas as pd

    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise InputError(f"{path}: no such file; `assay run` writes the rows of a run when it starts")
    table = pd.read_parquet(path)
    labels = np.stack([np.asarray(label) for label in table["label"]]) if len(table) else np.empty(0, np.int64)
    return Split(list(table["text"]), labels, list(table["row"]))


def read_job_data(run: Path) -> JobData:
    """All rows of a run, as its `run.json` and `data/` tell. InputError where one of the files is not there."""
    try:
        record = json.loads((run / "run.json").read_text())
    except FileNotFoundError:
        raise InputError(f"{run}: no run.json, so no run") from None
    train, validation, test = (read_split(run / "data", name) for name in NAMES)
    length = record["job"]["data"]["max_length"]
    return JobData(train, validation, test, tuple(record["labels"]), record["task"], "", length)


def as_parquet(table: pd.DataFrame) -> bytes:
    """The table as the bytes of a parquet file."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _table(split: Split) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({"row": split.rows, "text": split.texts, "label": list(split.labels)})


def _saved(folder: Path) -> Any:
    try:
        return json.loads((folder / "data.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
