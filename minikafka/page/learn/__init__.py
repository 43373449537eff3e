"""Learn mode: a simulated cluster that is played in slices, stopped, changed and scrubbed back.

A ``Recipe`` (seed, settings, actions at their times) decides everything that happens; a
``Playback`` plays it, the story of a chapter acts in it, and a ``Session`` shows it to a page. The
command line and the tests may use this package. Start reading at ``playback.py``, then
``story.py`` and ``session.py``.

``SimLoop`` pauses where it would jump past the end of a slice. So slices set no timer, and a
simulation in slices has the digest of one run. To scrub back is to play again. A recipe may be a
stranger's: its arguments and names of settings are checked.
"""
