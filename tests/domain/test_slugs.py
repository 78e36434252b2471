"""Names people give."""

import pytest

from domain.errors import InputError
from domain.slugs import check_model, check_name, check_slug


@pytest.mark.parametrize("text", ["a", "7", "acme", "acme.corp_2-b", "a" * 64])
def test_a_slug_is_returned(text: str) -> None:
    assert check_slug("tenant", text) == text


@pytest.mark.parametrize(
    "text", ["", "-acme", "acme-", "Acme", "a b", "a/b", "a" * 65, "acme\n", "ácme", "а", "a;drop", "..", "_"]
)
def test_what_is_no_slug_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(InputError, match=r"^cannot use .* as a tenant: 1 to 64 ") as refused:
        check_slug("tenant", text)
    assert repr(text) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["GPU-8f6a", "node.rack:1/b", "MIG-GPU-1/2/3", "a" * 128, "Node_1"])
def test_a_name_is_returned(text: str) -> None:
    assert check_name("node", text) == text


@pytest.mark.parametrize("text", ["", "/etc", "a/", "a b", "a\n", "a" * 129, "a'b", 'a"b', "é"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^cannot use .* as a node: 1 to 128 "):
        check_name("node", text)


@pytest.mark.parametrize("text", ["NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3", "x" * 128])
def test_a_model_is_returned(text: str) -> None:
    assert check_model(text) == text


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 129, "a\0"])
def test_what_no_driver_calls_a_card_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^cannot use .* as a model: 1 to 128 "):
        check_model(text)
