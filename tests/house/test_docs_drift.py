"""Documents drawn from the code are as the code would draw them now."""

from scripts.lib import docs


def test_configuration_is_up_to_date() -> None:
    assert docs.CONFIGURATION.read_text() == docs.configuration(), "run scripts/docs"
