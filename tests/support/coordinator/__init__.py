"""Group and transaction coordinators for tests, each alone with a log in memory."""
