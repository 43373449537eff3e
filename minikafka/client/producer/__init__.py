"""The producer: records are batched, sent to leaders, and acknowledged.

``minikafka.client`` exports ``Producer``; start reading at ``producer.py``.
"""
