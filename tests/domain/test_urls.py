"""No part of a password is ever shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.urls import without_credentials


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8470", "http://127.0.0.1:8470"),
        ("https://metrics.example/prefix", "https://metrics.example/prefix"),
        ("http://u:s3cret@127.0.0.1:8470/x", "http://127.0.0.1:8470/x"),
        ("http://u@127.0.0.1", "http://127.0.0.1"),
        ("http://u:s3@cret@127.0.0.1:8470", "http://127.0.0.1:8470"),
        ("http://u:s3/cret@127.0.0.1:8470", "http://127.0.0.1:8470"),
        ("http://u:s3?cr#et@127.0.0.1:8470", "http://127.0.0.1:8470"),
        ("http://u:s3://cret@127.0.0.1:8470", "http://127.0.0.1:8470"),
        ("u:s3cret@127.0.0.1:8470", "127.0.0.1:8470"),
        ("nonsense", "nonsense"),
    ],
)
def test_user_and_password_go_and_the_rest_stays(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@given(password=st.text(min_size=1))
def test_no_password_is_shown_whatever_is_in_it(password: str) -> None:
    assert without_credentials(f"http://user:{password}@[::1]:8428/prefix") == "http://[::1]:8428/prefix"
