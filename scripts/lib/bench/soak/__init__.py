"""The soak: a mixed load at a fixed rate for minutes or hours, and what drifts, leaks or stalls.

Start with ``run.py``. Only ``scripts/bench soak`` calls it.
"""
