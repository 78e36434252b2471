"""In the place of DCGM's `dcgm_structs`: its structures by the same names, as plain objects."""
# ruff: noqa: N802, N803, N816

from types import SimpleNamespace

c_dcgmConnectV3Params_version = 1
c_dcgmConnectV2Params_version = 2

c_dcgmConnectV3Params_v1 = SimpleNamespace
c_dcgmConnectV2Params_v2 = SimpleNamespace
c_dcgmGroupEntityPair_t = SimpleNamespace

# Where the library is said to be missing, what loading it raises.
missing_library: list[int] = []


class DCGMError(Exception):
    """The one error of the bindings; `value` is its status."""

    def __init__(self, value: int) -> None:
        super().__init__({-21: "The connection to the host engine is not valid any longer"}.get(value, "Error"))
        self.value = value


def _dcgmInit(libDcgmPath: str | None = None) -> None:
    if missing_library:
        raise DCGMError(missing_library[0])
