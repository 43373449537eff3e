"""The admin client: topics, configurations, groups, transactions, placement, log directories.

``core/client/admin`` builds the calls and reads the responses; this package sends and retries them.
``minikafka.client`` exports ``Admin``; start reading at ``admin.py``.
"""
