"""Progress of a call that is sent several times."""

from __future__ import annotations

import math
from typing import Any

from ..protocol.types.requests import ProgressParams
from .connection import Progress


class Rising:
    """Progress over all rounds of a call. It never goes back: a round that begins at the beginning is not seen until it
    is further than those before."""

    def __init__(self, callback: Progress):
        self._callback = callback
        self._highest = self._before = -math.inf

    def again(self) -> None:
        """The call is sent again."""
        self._before = self._highest

    def __call__(self, params: ProgressParams) -> Any:
        if params.progress < self._highest or params.progress == self._before:
            return None
        self._highest = params.progress
        return self._callback(params)
