"""The JSON Schema of a config, with every step and probe that is installed: for completion and checks in an editor."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from assay.core.config.job import BASELINES, JobSettings
from assay.core.plugins import PROBES, STEPS, Shelf


def schema(steps: Shelf = STEPS, probes: Shelf = PROBES) -> dict[str, Any]:
    """Draft 2020-12. It knows names, types and bounds; that formats fit along a chain only `load_job` checks."""
    models: list[type[BaseModel]] = [JobSettings, *_models(steps).values(), *_models(probes).values()]
    refs, shared = models_json_schema([(model, "validation") for model in models])
    definitions = shared["$defs"]
    top = definitions.pop(refs[JobSettings, "validation"]["$ref"].rpartition("/")[2])
    chain = {"type": "array", "items": {"$ref": "#/$defs/step"}}
    top["properties"]["teacher"] |= chain
    top["properties"]["variants"]["additionalProperties"] = chain | {"minItems": 1}
    top["properties"]["variants"]["propertyNames"] = {"not": {"enum": list(BASELINES)}}
    top["properties"]["probes"] |= {"type": "array", "items": {"$ref": "#/$defs/probe"}}
    for shelf in (steps, probes):
        definitions[shelf.kind] = _entry({name: refs[model, "validation"] for name, model in _models(shelf).items()})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": definitions}


def _models(shelf: Shelf) -> dict[str, type[BaseModel]]:
    return {name: shelf.get(name) for name in shelf.names()}


def _entry(refs: dict[str, Any]) -> dict[str, Any]:
    """A bare name, or a mapping of one name to its settings (null where all are defaults)."""
    settings = {name: {"anyOf": [ref, {"type": "null"}]} for name, ref in refs.items()}
    mapping = {"type": "object", "properties": settings, "additionalProperties": False}
    return {"anyOf": [{"enum": list(refs)}, mapping | {"minProperties": 1, "maxProperties": 1}]}
