"""The memory that clients make a broker hold: one account by kind, and one limit for the sum."""

from __future__ import annotations

from typing import Final

from minikafka.server.listeners.request_memory import NO_LIMIT, UNLIMITED, RequestMemory

# A response may have so many bytes of records in any case: consumers and followers must progress.
RESPONSE_BYTES_ANYWAY: Final = 1024 * 1024
# Responses to consumers take at most one of so many parts of the limit, and parked fetches of
# followers stay parked while all parked fetches take less than one of so many parts.
CONSUMER_SHARE: Final = 2
PARKED_SHARE: Final = 4


class MemoryBudget:
    """Accounts what the clients of a broker make it hold. ``max_bytes``
    (``client.memory.max.bytes``) limits the sum of five kinds:

    - frames (``frame_bytes``): large buffers that receive requests;
    - requests (``requests``): unanswered requests, and replies that wait for earlier ones;
    - responses (``response_bytes``): large replies that their clients have not taken;
    - parked fetches (``parked_fetch_bytes``): the partitions that they wait for;
    - fetch sessions (``session_bytes``): the partitions that they remember.

    The owner of each kind looks at the account when its kind is about to grow. When the memory is
    used up, only the frame that began first gets a larger buffer (``FrameMemory``), a connection
    with an unanswered request is not read (``RequestMemory``), responses are cut to the
    ``response_room``, the largest parked fetches complete at once (``ParkedFetches``), and
    consumers get no session. Nothing waits for ever: the first frame is received, every connection
    is served one request, every response may have ``RESPONSE_BYTES_ANYWAY``, and the fetches and
    sessions of followers are spared. The limit may be exceeded by as much.

    The default is half of the heap that Kafka starts with, which holds the same things there.

    ``max_request_bytes`` (``queued.max.request.bytes``) limits requests alone. For both limits 0 or
    less is unlimited.
    """

    def __init__(self, max_bytes: int = UNLIMITED, max_request_bytes: int = UNLIMITED) -> None:
        self.max_bytes = max_bytes if max_bytes > 0 else NO_LIMIT
        self.requests = RequestMemory(max_request_bytes)
        self.frame_bytes = 0
        self.response_bytes = 0
        self.parked_fetch_bytes = 0
        self.session_bytes = 0
        self._other_bytes = 0  # the sum of these four
        self._add(0)

    @property
    def used_bytes(self) -> int:
        return self.requests.used_bytes + self._other_bytes

    @property
    def is_exceeded(self) -> bool:
        return self.used_bytes > self.max_bytes

    @property
    def is_exceeded_by_parked(self) -> bool:
        """Whether the limit is exceeded, and parked fetches have a large part in it."""
        return self.is_exceeded and self.parked_fetch_bytes > self.max_bytes // PARKED_SHARE

    @property
    def session_room(self) -> int:
        """How many bytes all fetch sessions together may take now."""
        return max(0, self.max_bytes - self.used_bytes + self.session_bytes)

    def response_room(self, to_follower: bool) -> int:
        """Return how many bytes of records a response may have now."""
        room = self.max_bytes - self.used_bytes
        if not to_follower:
            room = min(room, self.max_bytes // CONSUMER_SHARE - self.response_bytes)
        return max(room, RESPONSE_BYTES_ANYWAY)

    def add_frames(self, size: int) -> None:
        """Count ``size`` more bytes of large receive buffers, or fewer if it is negative."""
        self.frame_bytes += size
        assert self.frame_bytes >= 0, "more bytes were freed than were taken"
        self._add(size)

    def add_responses(self, size: int) -> None:
        """Count ``size`` more bytes of replies that clients have not taken, or fewer if it is
        negative."""
        self.response_bytes += size
        assert self.response_bytes >= 0, "more bytes were taken than were sent"
        self._add(size)

    def add_parked_fetches(self, size: int) -> None:
        """Count ``size`` more bytes of parked fetches, or fewer if it is negative."""
        self.parked_fetch_bytes += size
        assert self.parked_fetch_bytes >= 0, "more fetches were completed than were parked"
        self._other_bytes += size  # ``_add``, written out for every parked Fetch
        self.requests.limit_to(self.max_bytes - self._other_bytes)

    def set_sessions(self, size: int) -> None:
        """Set the bytes of all fetch sessions."""
        if size != self.session_bytes:
            grown_by = size - self.session_bytes
            self.session_bytes = size
            self._add(grown_by)

    def _add(self, size: int) -> None:
        """Count bytes of the other kinds, and leave to requests what these do not take. So the
        account costs a request nothing."""
        self._other_bytes += size
        self.requests.limit_to(self.max_bytes - self._other_bytes)
