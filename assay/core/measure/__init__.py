"""Bytes, parameters, latency, memory and cold start, measured side by side."""
