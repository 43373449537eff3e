"""The consumer: partitions assigned by hand or shared by a group, fetched ahead of ``poll``.

``minikafka.client`` exports ``Consumer``; start reading at ``consumer.py``.
"""
