"""APIs of the cluster: configurations, elections, reassignments, log directories, features."""
