"""All tests. As a package, the folder ``tests/kafka`` does not take the name of kafka-python."""
