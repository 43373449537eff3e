"""The producer: records are batched, sent to leaders, and acknowledged.

``minikafka.client`` exports ``Producer``; start reading at ``producer.py``.

``producer`` chooses a partition and appends to ``core/client/producer/accumulator``, which encodes
records as they arrive. A batch that begins or is full wakes ``sender``, which drains what is ready,
a request for each leader. ``core/client/producer/sequences`` stamps batches as they leave and says
what a response means: retry, already written, or failed. A batch of unknown outcome that is given
up costs an epoch. ``send_many`` and ``send_arrow`` append batches that are encoded before
(``RunBatch``).
"""
