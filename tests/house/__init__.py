"""Rules for all sources and documents. A package, so that fixtures can end with its last test."""
