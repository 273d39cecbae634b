"""Look at every variant the same way: evaluate on the test rows, run the probes. Finished findings are kept.

A result is kept as long as its key (examined model, settings, data, seed) is the same. What fails is noted with its
traceback, and the rest goes on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from assay.core.artifact import Artifact, is_language
from assay.core.config.job import Chain
from assay.core.data.prepare import JobData
from assay.core.errors import NoRoom, NotGiven
from assay.core.evaluate import compare, evaluate
from assay.core.manifest import ERROR, hash_file, key_of, write_atomic, write_json
from assay.core.metric import Metric
from assay.run.failure import leave_error, one_line, raise_disk_error, told
from assay.run.opened import Opened
from assay.run.progress import Display
from assay.run.results import read_result
from assay.run.saved_data import as_parquet
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.shared_states import StateCache

if TYPE_CHECKING:
    import pandas as pd

    Judgement = tuple[list[Metric], pd.DataFrame, dict[str, Any]]  # figures, answers by row, what else is known of them

EVALUATION_VERSION = 3


@dataclass(frozen=True)
class Subject:
    """A variant to look at: the artifact it ships, and the torch weights behind it where the graph came from some.
    `shows_states`: the graph gives hidden states itself."""

    variant: str
    artifact: Artifact
    weights: Artifact
    shows_states: bool = False

    def examined(self, needs: Needs) -> tuple[Artifact, str]:
        """What a probe with such needs looks at, and what the report calls it."""
        enough = needs == "logits" or (needs == "states" and self.shows_states)
        if self.artifact.format == "onnx" and not enough:
            return self.weights, "torch weights before export"
        return self.artifact, "graph" if self.artifact.format == "onnx" else "torch weights"


@dataclass
class Examiner:
    """`folder` is the run folder, `teacher` the full model in torch, `known` the findings of earlier runs by key.

    `failed` collects one line for each thing that went wrong. `close` when all is looked at: hidden states that probes
    share lie in the run's scratch until then, those of a variant until the next one's turn."""

    folder: Path
    data: JobData
    seed: int
    teacher: Artifact
    probes: Chain
    display: Display
    known: dict[str, dict[str, Any]]
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open = Opened(self.data.max_length)
        folder = self.folder / "scratch" / "states"
        shutil.rmtree(folder, ignore_errors=True)  # what a killed run left
        self.states = StateCache(folder, self.display.line)
        self.kept: dict[str, Any] = {}

    def close(self) -> None:
        """Remove what was only there while looking."""
        self.states.close()

    def look_at(self, subject: Subject) -> None:
        """Everything about one variant; what is already there under the same key stays."""
        work = self._missing(subject)
        if not work:
            self.display.skip(f"examine {subject.variant}")
            return
        with self.display.task(f"examine {subject.variant}") as progress:
            for done, piece in enumerate(work):
                progress(done, len(work))
                piece()
        self.open.close_all_but(self.teacher)
        self.states.keep_only([self.teacher])

    def _missing(self, subject: Subject) -> list[Callable[[], None]]:
        """What is left to do, as calls."""
        work: list[Callable[[], None]] = []
        key = key_of("evaluation", EVALUATION_VERSION, subject.artifact.key, self.teacher.key, self.data.fingerprint)
        folder = self._folder(subject)
        if read_result(folder / "evaluation.json").get("key") != key or not (folder / "predictions.parquet").is_file():
            work.append(partial(self._try_to_evaluate, subject, key))
        for name, probe in self.probes:
            key = self._probe_key(subject, name, probe)
            if read_result(folder / "probes" / f"{name}.json").get("key") != key:
                work.append(partial(self._probe, subject, name, probe, key))
        return work

    def _folder(self, subject: Subject) -> Path:
        return self.folder / "results" / subject.variant

    def _probe_key(self, subject: Subject, name: str, probe: Probe) -> str:
        examined, _ = subject.examined(probe.needs)
        settings = probe.model_dump(mode="json")
        parts = ("probe", name, settings, probe.version, self.seed, examined.key, self.teacher.key)
        return key_of(*parts, self.data.fingerprint, *(hash_file(path) for path in probe.inputs()))

    def _try_to_evaluate(self, subject: Subject, key: str) -> None:
        folder = self._folder(subject)
        (folder / ERROR).unlink(missing_ok=True)
        try:
            self._evaluate(subject, key, folder)
        except Exception as error:
            raise_disk_error(error, self.folder)
            self._note(f"{subject.variant}: evaluation", one_line(error), leave_error(folder, error))

    def _evaluate(self, subject: Subject, key: str, folder: Path) -> None:
        judge = self._judge_language if is_language(self.data.task) else self._judge
        metrics, predictions, about = judge(subject.artifact)
        write_atomic(folder / "predictions.parquet", as_parquet(predictions))
        evaluation = {
            "key": key,
            "variant": subject.variant,
            "artifact_key": subject.artifact.key,
            "layout": _layout(self.open(subject.artifact).batch_size),
            **about,
            "metrics": [asdict(metric) for metric in metrics],
        }
        write_json(folder / "evaluation.json", evaluation)

    def _judge(self, artifact: Artifact) -> Judgement:
        test, task = self.data.test, self.data.task
        logits = self.open(artifact).logits(test.texts)
        metrics = evaluate(logits, test, task, self.data.labels)
        if artifact.key != self.teacher.key:
            metrics += compare(logits, self.open(self.teacher).logits(test.texts), test, task)
        return metrics, _predictions(logits, self.data), {}

    def _judge_language(self, artifact: Artifact) -> Judgement:
        """Told too: why there are no figures; whether the teacher was asked the same, None of the teacher itself."""
        import pandas as pd

        from assay.core.evaluate_language import answer, metrics_of
        from assay.core.model.language import LanguageModel

        texts = self.data.test.texts
        model = cast(LanguageModel, self.open(artifact))
        teacher = cast(LanguageModel, self.open(self.teacher)) if artifact.key != self.teacher.key else None
        answers = answer(model, texts, teacher)
        about = {"paired": answers.paired if teacher else None, "skipped": answers.obstacle}
        return metrics_of(answers), pd.DataFrame({"row": self.data.test.rows} | answers.columns()), about

    def _probe(self, subject: Subject, name: str, probe: Probe, key: str) -> None:
        path = self._folder(subject) / "probes" / f"{name}.json"
        examined, called = subject.examined(probe.needs)
        findings, again = (self.known[key], False) if key in self.known else self._find(probe, examined)
        failed = findings["failed"]
        about = {
            "key": None if failed or again else key,  # the next run tries again
            "probe": name,
            "settings": probe.model_dump(mode="json"),
            "variant": subject.variant,
            "examined": called,
            "silver": probe.silver(),
        }
        write_json(path, about | findings)
        if failed:
            self._note(f"{subject.variant}: probe {name}", failed, path)
        elif not again:
            self.known[key] = findings

    def _find(self, probe: Probe, examined: Artifact) -> tuple[dict[str, Any], bool]:
        """What the probe found, and whether it is worth trying again as it is."""
        started = time.monotonic()
        told_of, again = dict[str, Any](failed=None), False
        try:
            about = (self.seed, self.data, self.open(self.teacher), self.display.line)
            findings = probe.run(self.open(examined), ProbeContext(*about, self.states, self.kept))
        except NotGiven as reason:
            findings, again = Findings(skipped=one_line(reason)), isinstance(reason, NoRoom)
        except Exception as error:
            raise_disk_error(error, self.folder)
            findings, told_of = Findings(), {"failed": one_line(error), "traceback": told(error)}
        return asdict(findings) | told_of | {"seconds": round(time.monotonic() - started, 2)}, again

    def _note(self, what: str, error: str, path: Path) -> None:
        self.failed.append(f"{what}: {error} (traceback: {path})")
        self.display.line(self.failed[-1])


def _predictions(logits: np.ndarray, data: JobData) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame({"row": data.test.rows, "label": list(data.test.labels)})
    columns = pd.DataFrame(logits, columns=[f"logit_{index}" for index in range(logits.shape[1])])
    return pd.concat([table, columns], axis=1)


def _layout(batch_size: int) -> dict[str, Any]:
    if batch_size == 1:
        return {"batch_size": 1, "padding": "none"}
    return {"batch_size": batch_size, "order": "by length", "padding": "to the longest row of the batch"}
