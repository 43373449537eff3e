"""Bytes and messages for tests of the protocol, with codecs that share no code with minikafka."""
