"""The command line: one module for each verb, in rooms by subject.

Owns options, output and exit statuses; what a verb does is in ``client/``, ``node/``, ``verify/``
and ``spark/``. Nothing imports this package. Start reading at ``main.py``, then at the verb's
module.
"""
