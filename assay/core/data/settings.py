"""The `data:` block of a config: where the rows are, which columns count, how they are split."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Name = Annotated[str, Field(min_length=1)]


def _a_size(value: int | float) -> int | float:
    if value <= 0 or (isinstance(value, float) and value >= 1):
        raise ValueError(f"{value} is neither a number of rows (1, 2, ...) nor a share in (0, 1)")
    return value


def _int_as_name(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _int_keys_as_names(value: Any) -> Any:
    return {_int_as_name(key): item for key, item in value.items()} if isinstance(value, dict) else value


Size = Annotated[int | float, AfterValidator(_a_size)]
ClassName = Annotated[Name, BeforeValidator(_int_as_name)]


class SplitSizes(BaseModel):
    """Rows (int) or share of all rows (float in (0, 1)) of each held-out split; train gets the rest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    test: Size = 0.2
    validation: Size = 0.1


class DataSettings(BaseModel):
    """Settings of `prepare`.

    source, test_source, validation_source: CSV, TSV, JSONL or Parquet file as `path` or `pkg:package/path`, or a
        dataset as `hf:org/name[:config][@split]`. Without the last two, rows are split off `source`.
        Of images: a folder with one folder of images a class, or such a table with a column of paths, `image`.
    label: one column, or for multi-label tasks a list with one 0/1 column a class.
    where: keep rows whose column equals the value or one of a list of values; 1 and "1" are equal.
    labels: class names in the order of the logits, or a map from the value in the file to the class name. With a list,
        whole numbers in the file are positions in it, unless the list itself holds numbers.
    empty: what happens to a row without a label or whose text is missing (null in JSON or Parquet): stop with its row
        number, or leave it out and count it. A text of no or only blank characters is a text, is kept and is counted.
    limit: at most this many rows of each file, by a seeded stratified sample.
    delimiter: the column separator, where the file ending does not tell; tab turns quoting off.
    max_length: tokens a text is cut to.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    source: Name
    text: Name = "text"
    image: Name = "image"
    label: Name | Annotated[list[Name], Field(min_length=1)] = "label"
    where: dict[str, str | int | float | list[str | int | float]] = {}
    split: SplitSizes = SplitSizes()
    labels: list[ClassName] | Annotated[dict[str, ClassName], BeforeValidator(_int_keys_as_names)] | None = None
    max_length: int = Field(default=128, ge=3)
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    empty: Literal["error", "skip"] = "error"
    limit: int | None = Field(default=None, ge=2)
    test_source: Name | None = None
    validation_source: Name | None = None

    @model_validator(mode="after")
    def _sizes_only_without_files(self) -> DataSettings:
        for name in ("test", "validation"):
            if getattr(self, f"{name}_source") and name in self.split.model_fields_set:
                raise ValueError(f"{name}_source already gives the {name} rows; remove split.{name}")
        return self

    @model_validator(mode="after")
    def _names_only_once(self) -> DataSettings:
        for field in ("label", "labels"):
            names = getattr(self, field)
            if isinstance(names, list) and len(set(names)) < len(names):
                raise ValueError(f"{field}: {names} holds a name twice")
        return self

    @model_validator(mode="after")
    def _names_at_all(self) -> DataSettings:
        if self.labels is not None and not self.labels:
            raise ValueError("labels is empty; leave it out to take the names from the file")
        return self

    @property
    def label_columns(self) -> list[str]:
        """The label columns as a list, also where there is only one."""
        return self.label if isinstance(self.label, list) else [self.label]
