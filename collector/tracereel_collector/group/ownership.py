"""Owner of a body by rendezvous hash: the member whose ledger decides about it."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Final

from tracereel_collector.model import Body, EmitterRun

CACHED: Final = 10_000


class Ownership:
    """Owners among the names of a group; the same on every member that has the same names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = [(name, f"{len(name)}:{name}".encode()) for name in sorted(names)]
        self.of_emitter = lru_cache(CACHED)(self._of_emitter)

    def of_key(self, key: bytes) -> str:
        """Return the owner of a key: the name with the highest hash."""
        return max((_score(prefix, key), name) for name, prefix in self._names)[1]

    def _of_emitter(self, tenant: str, emitter_id: str) -> str:
        return self.of_key(f"emitter\0{tenant}\0{emitter_id}".encode())

    def of_bytes(self, body: Body) -> str:
        """Return the owner of a body without emitters."""
        digest = hashlib.blake2b(body.data, digest_size=16)
        return self.of_key(f"{body.kind}\0{body.tenant}\0".encode() + digest.digest())

    def parts_of(self, body: Body) -> list[tuple[str, Body]]:
        """Return the parts of a body by owner; lines without a ledger are a part of their own."""
        tenant = body.tenant
        owners = {
            run.emitter_id: self.of_emitter(tenant, run.emitter_id)
            for run in body.runs
            if run.emitter_id is not None
        }
        if not owners:
            return [(self.of_bytes(body), body)]
        has_others = any(run.emitter_id is None for run in body.runs)
        if not has_others and len(distinct := set(owners.values())) == 1:
            return [(distinct.pop(), body)]
        return self._split(body, owners)

    def _split(self, body: Body, owners: dict[str, str]) -> list[tuple[str, Body]]:
        lines = body.data.split(b"\n")
        taken: dict[str | None, list[bytes]] = defaultdict(list)
        runs: dict[str | None, list[EmitterRun]] = defaultdict(list)
        ends = accumulate(run.count for run in body.runs)
        for run, end in zip(body.runs, ends, strict=True):
            owner = None if run.emitter_id is None else owners[run.emitter_id]
            taken[owner] += lines[end - run.count : end]
            if run.emitter_id is not None:
                runs[owner].append(run)
        parts = []
        for owner, of_owner in taken.items():
            part = replace(
                body,
                data=b"\n".join(of_owner),
                records=len(of_owner),
                runs=tuple(runs[owner]),
                rejected=0,
                rejected_reasons=(),
            )
            parts.append((owner or self.of_bytes(part), part))
        return parts


def _score(prefix: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(prefix + key, digest_size=8).digest()
