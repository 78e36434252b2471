"""In the place of DCGM's `dcgm_fields`, whose names change from version to version: whoever uses one fails."""


def __getattr__(name: str) -> int:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AssertionError(f"the name {name} is of one version of DCGM")
