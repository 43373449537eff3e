"""Learn mode in a browser tab: what runs in Pyodide there, and what makes its files.

``bridge.py`` runs in the tab's worker, beside the fallbacks. ``shipped.py`` chooses the modules
that the tab loads, ``bytecode.py`` and ``compile.mjs`` compile them, ``downloads.py`` gets Pyodide.
``minikafka/page/learn/site.py`` writes the whole site: start reading there.
"""

from __future__ import annotations


class SiteError(Exception):
    """The site cannot be written. The message is one sentence for the user."""
