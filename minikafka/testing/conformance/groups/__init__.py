"""The checks, a file for each subject. ``ALL`` in ``catalogue.py`` has them by the group's name.

A file's checks are its functions with ``@check``, in their order. They raise what ``check.py``
says; what else goes wrong (a time-out, a response that cannot be decoded) is a failure, too.
"""
