"""Faults that a test puts into the request path: rules, and which requests they concern.

``kinds`` lists the faults that tests may add; start reading there. ``rules`` decides; it knows
neither connections nor time. ``requests`` finds the rows of messages, ``responses`` writes errors
into them. The request path of a broker (``broker/apis``) and the proxy of the verb ``faults`` carry
the decisions out.
"""
