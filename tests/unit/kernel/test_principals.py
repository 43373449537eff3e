"""Principals: equality and text."""

import pytest

from minikafka.kernel.principals import Principal, parse_principal


def test_a_principal_is_its_type_and_name() -> None:
    assert parse_principal("User:CN=a:b,O=c") == Principal("CN=a:b,O=c")
    assert str(Principal("x", "Role")) == "Role:x"
    assert Principal("x", by_token=True) == Principal("x")
    assert Principal("x") != Principal("x", "Role")


@pytest.mark.parametrize("text", ["", "bob", ":bob", "User:"])
def test_a_text_without_type_or_name_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="is not Type:name"):
        parse_principal(text)
