"""YAML as people write it: keys in their order, text of several lines as a block."""

from typing import Any

import yaml


class _BlockDumper(yaml.SafeDumper):
    """A dumper that neither sorts keys nor folds lines."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - the base class's
        # Without it, the items of a list stand below their key without being indented.
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockDumper.add_representer(str, _represent_text)


def to_yaml(content: Any, *, heading: str) -> str:
    """The content as YAML below a comment of one line. Equal content is equal text, byte for byte."""
    body: str = yaml.dump(content, Dumper=_BlockDumper, sort_keys=False, allow_unicode=True, width=1_000)
    return f"# {heading}\n{body}"
