"""usage: python -m scripts.lib.bench.failing_logins PORT COUNT SECONDS

Logs in with a wrong password so often within so many seconds. Ends with 1 unless every login was
refused and its connection closed."""

from __future__ import annotations

import asyncio
import struct
import sys

from scripts.lib.bench.security import login_frames

REFUSED = 58  # SASL_AUTHENTICATION_FAILED
LIMIT_S = 60


async def fail(port: int) -> bool:
    """Return whether the login was refused and the connection closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        body = b""
        for frame in login_frames("wrong"):
            writer.write(frame)
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            body = await reader.readexactly(size)
        # A flexible header: correlation id, no tags; then the error code.
        return struct.unpack_from(">h", body, 5) == (REFUSED,) and not await reader.read(1)
    finally:
        writer.close()


async def fail_all(port: int, count: int, seconds: float) -> bool:
    tasks = []
    for _ in range(count):
        tasks.append(asyncio.create_task(fail(port)))
        await asyncio.sleep(seconds / count)
    async with asyncio.timeout(LIMIT_S):
        return all(await asyncio.gather(*tasks))


if __name__ == "__main__":
    port, count, seconds = sys.argv[1:]
    sys.exit(not asyncio.run(fail_all(int(port), int(count), float(seconds))))
