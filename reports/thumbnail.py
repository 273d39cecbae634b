"""Small pictures of a run's images, to stand in the page itself: it loads nothing from elsewhere."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from assay.core.errors import InputError
from assay.core.model.image_files import open_image

SIDE = 96  # pixels of the longer edge


def thumbnail(path: str) -> str | None:
    """A PNG as a data address; None where the image is gone since the run, or Pillow is not installed here."""
    try:
        image = open_image(Path(path))
    except InputError:
        return None
    scale = SIDE / max(image.size)
    small = image.resize([max(1, round(edge * scale)) for edge in image.size])
    written = io.BytesIO()
    small.save(written, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
