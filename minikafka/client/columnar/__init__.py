"""Record batches as Arrow columns: numpy decodes and encodes a field of all records in one step.

The Spark data source and the client's ``poll_arrow`` and ``send_arrow`` use it, and import it only
where they need it. Start reading at ``decode.py`` and ``encode.py``.
"""

from minikafka.kernel.extras import require

require("arrow", "reading and writing Arrow columns")
