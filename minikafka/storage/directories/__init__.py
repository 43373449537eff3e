"""The log directories of a broker: which logs they hold, loading, moving, failing, deleting.

The node creates one ``LogManager``; start reading there.
"""
