"""Legal topic names, and names that collide."""

import pytest

from minikafka.core.topic_names import may_collide, metric_name, name_problem, require_valid
from minikafka.kernel.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "x" * 249, "__consumer_offsets"])
def test_legal(name: str) -> None:
    assert name_problem(name) is None
    require_valid(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n", "٣"])
def test_illegal(name: str) -> None:
    with pytest.raises(KafkaError, match="Topic name is invalid") as refused:
        require_valid(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_name_problem_describes_an_illegal_name() -> None:
    assert name_problem("") == "the empty string is not allowed"
    assert name_problem("..") == "'..' is not allowed"
    assert "max allowed length 249" in str(name_problem("x" * 250))
    assert "other than ASCII alphanumerics" in str(name_problem("a b"))


def test_dots_and_underscores_collide() -> None:
    assert metric_name("a.b") == metric_name("a_b")
    assert metric_name("a.b") != metric_name("a-b")
    assert may_collide("a.b")
    assert may_collide("a_b")
    assert not may_collide("a-b")
