"""The benchmarks of ``scripts/bench``: one harness, and a table of loads.

``__main__`` lists all benchmarks by name. ``harness`` takes rounds in turns, waits, and reads CPU
and memory of processes. ``brokers`` starts a cluster of either kind, ``load`` drives a server,
``neighbours`` produce small records beside something else, ``requests`` makes and checks messages,
``report`` prints rows and writes documents. ``loads`` is the table: a row says what is sent, beside
what, and which figures are shown. Every other module is a benchmark of something that is not a rate
of requests.
"""
