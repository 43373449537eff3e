"""The admin client: topics, configurations, groups, transactions, placement, log directories.

``minikafka.client`` exports ``Admin``; start reading at ``admin.py``.
"""
