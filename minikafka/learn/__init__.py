"""Learn mode: a simulated cluster that is played in slices, stopped, changed and scrubbed back.

A ``Recipe`` (seed, settings, actions at their times) decides everything that happens; a
``Playback`` plays it. The command line and the tests may use this package. Start reading at
``playback.py``.
"""
