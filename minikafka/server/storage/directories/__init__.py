"""The log directories of a broker: loading, creating, moving and deleting logs; disk failures.

The node creates one ``LogManager``; start reading there.
"""
