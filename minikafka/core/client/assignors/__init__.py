"""Partition assignment of consumer groups: Kafka's four assignors as pure functions.

The leader of a group calls them with the subscriptions of all members (``membership.py``). Start
reading at ``model.py``; ``catalogue.py`` finds an assignor by its name.
"""
