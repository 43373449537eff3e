"""Record batches as Arrow columns: numpy decodes and encodes a field of all records in one step.

The Spark data source and the client's ``poll_arrow`` and ``send_arrow`` use it, and import it only
where they need it. Start reading at ``decode.py`` and ``encode.py``.
"""

from importlib.util import find_spec

if missing := [name for name in ("numpy", "pyarrow") if find_spec(name) is None]:
    raise ImportError(f"{' and '.join(missing)} missing: pip install 'minikafka[arrow]'")
