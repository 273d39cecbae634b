"""A job from start to end. The only package that knows compression, probes and reports alike."""
