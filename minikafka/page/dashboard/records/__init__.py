"""Records of topics for the page: found, decoded, shown, exported, and written.

``query`` parses what a reader asks for and ``records_api`` has the routes; start there. ``places``
and ``newest`` decide where to read, ``expression`` and ``matching`` what matches, ``decoding`` and
``rows`` what is shown: all pure. ``reading`` reads from the brokers, in steps, and ``schemas`` from
a registry.
"""
