"""Record batches: headers, records, compression, and the message sets of older formats.

Start reading at ``batch.py`` for the header and at ``record_layout.py`` for a record.

Loops over the records of a batch are compiled from ``record_layout``, each with the fields that it
wants. The leader's check and the reading of all fields (``record_loop``) are written out instead,
since mypyc compiles them.
"""
