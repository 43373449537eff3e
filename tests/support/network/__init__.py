"""Servers and peers for tests of the network package, on loopback sockets or simulated hosts."""
