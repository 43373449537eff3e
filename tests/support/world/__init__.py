"""Clocks, a loop and an event log that tests control.

``manual_clock`` stands still until a test advances it; ``jumping_loop`` jumps to the next timer.
"""
