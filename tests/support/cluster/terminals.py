"""Whether a test may have a pseudo terminal: a bare chroot has none."""

import os
import pty

import pytest


def _to_be_had() -> bool:
    try:
        ends = pty.openpty()
    except OSError:
        return False
    for end in ends:
        os.close(end)
    return True


needs_a_terminal = pytest.mark.skipif(
    not _to_be_had(), reason="no pseudo terminals here; is /dev/pts mounted?"
)
