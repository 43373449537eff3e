"""A network lab for each test."""

from tests.support.network.network_lab import lab as lab
