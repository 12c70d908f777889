"""Live stream of all members of a group: one connection to each peer, merged with the own records.

An id of the stream names the last number of each member (`a.12~b.7`), because each numbers for itself.
"""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from tracereel._export.http_client import HTTP_ERRORS, HttpStream
from tracereel_collector.errors import BadRequestError, ServiceUnavailableError
from tracereel_collector.group.members import Member
from tracereel_collector.group.peers import PeerClient, connect
from tracereel_collector.live.filters import TailFilter
from tracereel_collector.telemetry import name_thread

PATH: Final = "/v1/group/tail"
MAX_WAITING: Final = 64
"""Frames of all members that wait to be sent; members whose frames do not fit wait."""
AGAIN_SECONDS: Final = 2.0
SILENCE_SECONDS: Final = 30.0
MAX_FRAME_BYTES: Final = 32 * 1024 * 1024
MAX_ID_CHARS: Final = 4_000
_PLACE: Final = re.compile(r"([a-z0-9][a-z0-9._-]{0,62})\.([0-9]{1,19})")


def places_of(text: str | None, own: str) -> dict[str, int]:
    """Parse an id: the last number seen of each member; a number alone is of this one.

    Raises:
        BadRequestError: it is no id of a stream.
    """
    if not text:
        return {}
    if text.isdecimal() and len(text) <= 19:
        return {own: int(text)}
    found = [_PLACE.fullmatch(each) for each in text[:MAX_ID_CHARS].split("~")]
    if not own or not all(found):
        raise BadRequestError(
            f"after: {text[:80]!r} is not a position; expected the id of an event of this stream"
        )
    return {each[1]: int(each[2]) for each in found if each}


class GroupTail:
    """Frames of one stream from all members; used by one response."""

    def __init__(
        self,
        peers: PeerClient,
        *,
        tenant: str,
        wanted: TailFilter,
        places: Mapping[str, int],
    ) -> None:
        self._peers = peers
        self._question = {"tenant": tenant, "wanted": asdict(wanted)}
        self._places = dict(places)
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(MAX_WAITING)
        self._stop = threading.Event()
        self._streams: dict[str, HttpStream] = {}

    async def frames(self, own: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the frames of all members until the own ones end or one lags."""
        pump = asyncio.ensure_future(self._pump(own))
        threads = [
            threading.Thread(
                target=self._follow, args=(peer,), name=f"tail-{peer.name}", daemon=True
            )
            for peer in self._peers.group.peers
        ]
        for thread in threads:
            thread.start()
        try:
            while True:
                member, frame = await self._waiting.get()
                if not frame:
                    return
                yield self._placed(member, frame)
                if frame.startswith(b"event: lagged"):
                    return
        finally:
            self._stop.set()
            pump.cancel()
            for stream in list(self._streams.values()):
                stream.close()  # wakes up its thread
            with contextlib.suppress(asyncio.CancelledError):
                await pump

    async def _pump(self, own: AsyncIterator[bytes]) -> None:
        name = self._peers.group.name
        async for frames in own:
            for frame in frames.split(b"\n\n"):
                if frame:
                    await self._waiting.put((name, frame))
        await self._waiting.put((name, b""))

    def _placed(self, member: str, frame: bytes) -> bytes:
        """Return a frame with an id that names the last number of every member."""
        lines = frame.split(b"\n")
        for at, line in enumerate(lines):
            if line.startswith(b"id: "):
                self._places[member] = int(line[4:])
                places = "~".join(f"{name}.{last}" for name, last in sorted(self._places.items()))
                lines[at] = b"id: " + places.encode()
        return b"\n".join(lines) + b"\n\n"

    def _follow(self, peer: Member) -> None:
        """Read the stream of a peer until the response ends; connect again when it is cut."""
        name_thread(f"tail-{peer.name}")
        was_well = True
        while not self._stop.is_set():
            try:
                for frame in self._read(peer):
                    was_well = True
                    if not self._put(peer.name, frame):
                        return
            except HTTP_ERRORS as error:
                reason = f"{type(error).__name__}: {error}"[:200]
            except ServiceUnavailableError as error:
                reason = error.message
            else:
                reason = "the stream has ended"
            if was_well and not self._stop.is_set():
                was_well = False
                gap = json.dumps({"member": peer.name, "reason": reason})
                self._put(peer.name, b"event: gap\ndata: " + gap.encode())
            self._stop.wait(AGAIN_SECONDS)

    def _read(self, peer: Member) -> Any:
        connection = connect(self._peers.group, peer, seconds=SILENCE_SECONDS)
        question = {**self._question, "after": self._places.get(peer.name)}
        stream = connection.stream("POST", PATH, json.dumps(question).encode())
        self._streams[peer.name] = stream
        try:
            if stream.status != 200:
                raise ServiceUnavailableError(f"HTTP {stream.status}")
            buffer = b""
            for chunk in stream.chunks():
                *whole, buffer = (buffer + chunk).split(b"\n\n")
                if len(buffer) > MAX_FRAME_BYTES:
                    raise ServiceUnavailableError("a frame is too long")
                for frame in whole:
                    if frame.startswith(b"event: end"):
                        return
                    # The first frame and beats: only their id matters.
                    lines = frame.split(b"\n")
                    kept = [line for line in lines if not line.startswith((b":", b"retry:"))]
                    if kept:
                        yield b"\n".join(kept)
        finally:
            stream.close()

    def _put(self, member: str, frame: bytes) -> bool:
        """Wait for room and put a frame; return False if the response has ended."""
        try:
            putting = asyncio.run_coroutine_threadsafe(
                self._waiting.put((member, frame)), self._loop
            )
        except RuntimeError:
            return False  # the loop has ended
        while True:
            try:
                putting.result(0.5)
            except TimeoutError:
                if self._stop.is_set():
                    putting.cancel()
                    return False
            except asyncio.CancelledError:
                return False
            else:
                return True
