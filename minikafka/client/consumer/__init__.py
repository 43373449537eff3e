"""The consumer: partitions assigned by hand or shared by a group, fetched ahead of ``poll``.

``minikafka.client`` exports ``Consumer``; start reading at ``consumer.py``.

``poll`` takes from ``core/client/consumer/positions``, which holds fetched chunks whole and opens
them batch by batch; ``fetcher`` is one chunk ahead. In a group ``poll`` first lets its
``group_member`` take a step: everything that changes partitions or calls the application happens
there. There is one for each group protocol, ``classic_member`` and ``consumer_member``. Requests of
the membership go on in tasks between polls, on a separate connection, since a broker serves one
request of a connection at a time.
"""
