"""What a call of the bindings answers: SUCCESS or the code of its error."""

from collections.abc import Callable
from typing import Any

import pynvml


def code_of(call: Callable[..., Any], *arguments: Any, **options: Any) -> int:
    """The code that the library answered with."""
    try:
        call(*arguments, **options)
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(pynvml.NVML_SUCCESS)
