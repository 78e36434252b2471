"""How an answer that comes in pieces becomes lines."""

import httpx
from hypothesis import given
from hypothesis import strategies as st

from victoriametrics.connection import _lines


@given(pieces=st.lists(st.sampled_from([b"", b"\n", b"a", b"bc\n", b"\nd", b"\r", "\u2028".encode(), b"e\n\nf"])))
def test_lines_do_not_depend_on_where_the_answer_was_cut(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)

    lines = list(_lines(httpx.Response(200, content=iter(pieces))))

    assert lines == whole.removesuffix(b"\n").split(b"\n") if whole else lines == []
