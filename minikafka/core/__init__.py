"""Kafka's decisions as pure functions and data structures, one room for each subject.

Nothing here waits, reads a clock or touches a port; the time is an argument. ``broker/``,
``controller/``, ``coordinator/``, ``client/`` and ``storage/`` call it. Start reading in the room
of the subject that you change.
"""
