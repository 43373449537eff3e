"""Mutation testing: change one thing in the code, run the tests that reach it, see one fail.

``mutations`` finds the changes, ``coverage`` says which tests reach which lines, ``running`` tries
the changes that a function swap can apply, ``importing`` those that need a fresh import, ``forks``
bounds both, ``listed`` reads the accepted survivors of tests/survivors.json. Start at ``__main__``.

Why not mutmut 3 or cosmic-ray: mutmut mutates nothing outside functions (transition tables,
constants, defaults) and no property or other decorated function, and collects the tests again for
every mutant; cosmic-ray starts a whole test run for every mutant, without a coverage map.
"""
