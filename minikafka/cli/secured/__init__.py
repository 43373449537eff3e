"""A secured cluster made by `up --secure` or `secure`: its folder of keys, passwords and client
configurations, and its users in ZooKeeper. Used by the verbs only; start reading at ``folder``."""
