# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What devices, faults and captures have in common: they last as long as a `with`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Optional, Type

from ._command import Error


class Within(ABC):
    """Something that ends with its `with`, however that ends."""

    @abstractmethod
    def _end(self) -> None:
        """Ends it; raises Error where the command refuses."""

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self._end()
        except Error:
            # What has gone wrong within says more, as that the device has gone.
            if error is None:
                raise
