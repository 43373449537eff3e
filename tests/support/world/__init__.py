"""Clocks, workers, an event log and a client's world that tests control.

``manual_clock`` stands still until a test advances it; ``client_world`` jumps to the next timer.
"""
