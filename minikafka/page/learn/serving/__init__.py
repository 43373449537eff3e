"""Serves learn mode to browsers: one process for each session, and an HTTP server in front.

The command line starts ``server.py``, which starts ``player.py`` for each session. What a session
does is in ``minikafka.page.learn.session``; a browser tab runs the same one without this package.
"""
