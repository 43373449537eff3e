"""The checks, a file for each subject. ``ALL`` in ``catalogue.py`` has them by the group's name.

A file's checks are its functions with ``@check``, in their order. They raise what
``expectations.py`` says. Anything else that goes wrong is a failure, too: a time-out, or a
response that cannot be decoded.
"""
