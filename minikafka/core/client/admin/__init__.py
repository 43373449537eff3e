"""The calls of administration: what is requested, from which broker, and what responses mean.

``client/admin`` sends the calls and retries them. A function here takes arguments and returns a
``Call``; its type or its docstring names the broker that serves it. One file for each subject.
"""
