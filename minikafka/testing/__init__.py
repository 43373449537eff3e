"""For the tests of applications: clusters as pytest fixtures."""
