"""The files of a log as text, for ``minikafka dump-log``.

Start reading at ``files.py``, which walks the files; ``text.py`` turns the rows into lines of text.
"""
