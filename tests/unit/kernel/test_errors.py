"""Error codes: those we know, and those of a later Kafka."""

import pytest

from minikafka.kernel.errors import ErrorCode


def test_a_code_of_a_later_kafka_is_as_good_as_unknown() -> None:
    assert ErrorCode(16) is ErrorCode.NOT_COORDINATOR
    for code in (134, -2, 32_767):
        assert ErrorCode(code) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_invalid_error_code_is_refused() -> None:
    with pytest.raises(ValueError, match="NONE"):
        ErrorCode("NONE")  # type: ignore[arg-type]  # a wrong type is what is tried
