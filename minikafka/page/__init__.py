"""The page: what happens inside a cluster, in a browser.

``dashboard`` shows a running cluster and offers it as tools to language models, ``learn`` plays a
simulated one, which can be stopped, stepped, rewound and broken. Both send the same messages to the
same JavaScript, in ``dashboard/static``. Start reading at ``dashboard/stage.py``.
"""
