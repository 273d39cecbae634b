"""Everything that examines a model: the same probes run on the full model and on every variant."""
