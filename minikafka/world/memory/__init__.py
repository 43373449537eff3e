"""ZooKeeper and files in memory: what the simulated world and the world inside a process share."""
