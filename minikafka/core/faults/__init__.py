"""Faults that a test puts into the request path: rules, and which requests they concern.

``rules`` decides; it knows neither connections nor time. The request path of a broker
(``broker/apis``) and the proxy of the verb ``faults`` carry the decisions out.
"""
