"""Weights set to zero one by one: which matrices, which weights, and how zeros are held.

`magnitude`, `wanda`, `sparsegpt` and `random` prune a finished model at once; each holds `prune(subject)`. `gradual`
and `movement` prune while a model trains. Zeros make no file smaller and no matrix product faster by themselves.
"""
