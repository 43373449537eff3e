"""Verbs that show and change topics, configurations, replicas, leaders and log directories."""
