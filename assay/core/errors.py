"""Errors that end a command with one clear line instead of a traceback.

Every message says where, what was given, what is allowed and what to do.
"""

from __future__ import annotations


class AssayError(Exception):
    """Something failed while working; the command exits with code 1."""

    exit_code = 1


class InputError(AssayError):
    """The user's config, data or model cannot be used as given; exit code 2."""

    exit_code = 2


class ConfigError(InputError):
    """Every problem of a config at once, one line each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class SettingError(InputError):
    """A setting does not fit the model that its step is given. `setting` is written STEP.SETTING."""

    def __init__(self, setting: str, text: str) -> None:
        self.setting, self.text = setting, text
        super().__init__(f"{setting}: {text}")


class LimitError(AssayError):
    """A stated limit (parity tolerance, accuracy drop) was crossed; exit code 1."""


class NotGiven(AssayError):
    """A predictor cannot give what was asked, e.g. attentions of an ONNX graph.

    Probes turn it into `skipped, because ...`."""


class NoRoom(NotGiven):
    """There is not the memory or the disk for it now; the next run tries again."""
