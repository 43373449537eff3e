"""Record batches: headers, records, compression, and the message sets of older formats.

Start reading at ``batch.py`` for the header and at ``record_layout.py`` for a record.
"""
