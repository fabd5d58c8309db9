"""`--with-kv`: the KV of constant prefixes, computed when a program is compiled.

An engine computes it, the artifact carries it, and the first run on an engine of the same
kind puts it into the prefix cache, pinned, as if it had been computed there.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from lmc import __version__
from lmc.codegen.plan import Plan
from lmc.codegen.prefix_kv import PrefixKv, TokenIds, pack_kv, unpack_kv
from lmc.errors import UsageError
from lmc.ir.target import Backend, Prefill
from lmc.runtime.executor.prologues import prologues_of

_WHAT = {
    "lmc": "another version of lmc",
    "weights": "other weights",
    "tokenizer": "another tokenizer",
    "template": "another chat template",
    "dtype": "another dtype",
    "precision": "weights or activations of another precision",
    "kernels": "other kernels or another processor",
}


def constant_prefixes(plan: Plan) -> list[TokenIds]:
    """Return the token ids of all constant prefixes of a plan."""
    found: dict[TokenIds, None] = {}
    for step in plan.steps():
        if step.op == "lm.prologue":
            ids: Any = step.attributes["token_ids"]
            found.setdefault(tuple(ids))
    return [ids for ids in found if ids]


def binding_of(backend: Any) -> dict[str, str]:
    """Return what the bytes of a backend's KV depend on, by name."""
    return {"lmc": __version__, **backend.kv_binding}


def compute_prefixes(plan: Plan, backend: Any) -> bytes:
    """Compute the constant prefixes of a plan and return their KV (lmc.codegen.prefix_kv).

    Raises:
        UsageError: the backend keeps no KV, or is of another model than the plan.
        EngineError: a prefix does not fit the engine.
    """
    if not hasattr(backend, "read_kv"):
        raise UsageError(
            f"'{backend.target.name}' keeps no KV, so there is none to put into an artifact",
            hint="leave --with-kv out, or compile for a model with weights",
        )
    if backend.target.fingerprint != plan.target_fingerprint:
        raise UsageError("the program was compiled for another model than the one that is open")
    whole = {ids: _in_whole_pages(ids, backend.page_size) for ids in constant_prefixes(plan)}

    def read(ids: TokenIds, start: int) -> bytes:
        return backend.read_kv(whole[ids], start, len(ids))

    pins = _computed(list(whole.values()), backend)
    try:
        return pack_kv(whole, binding_of(backend), backend.kv_bytes_per_token, read)
    finally:
        for pin in pins:
            pin.release()


def _in_whole_pages(ids: TokenIds, page_size: int) -> TokenIds:
    """Return a prefix with any tokens behind it that fill its last page, so that it is kept."""
    return ids + ids[-1:] * (-len(ids) % page_size)


def _computed(prefixes: Sequence[TokenIds], backend: Backend) -> list[Prefill]:
    """Have prefixes computed and pinned."""
    results: list[Prefill | BaseException] = []
    is_done = threading.Semaphore(0)

    def done(result: Prefill | BaseException) -> None:
        results.append(result)
        is_done.release()

    for ids in prefixes:
        backend.submit_prefill(ids, done)
    for _ in prefixes:
        is_done.acquire()
    pins = [result for result in results if not isinstance(result, BaseException)]
    for result in results:
        if isinstance(result, BaseException):
            for pin in pins:
                pin.release()
            raise result
    return pins


def why_not_loaded(kv: memoryview, backend: Any) -> str | None:
    """Return why a backend cannot use KV, as a line for people; None where it can.

    Raises:
        ArtifactError: the bytes are damaged.
    """
    made = unpack_kv(kv)
    name = backend.target.name
    if not hasattr(backend, "submit_loaded"):
        return f"the artifact's prefix KV is not used: {name} keeps no KV"
    other = made.difference(binding_of(backend))
    if other is None:
        return None
    what = _WHAT.get(other, f"another {other}")
    return f"the artifact's prefix KV was made for {what} than {name} has: it is computed instead"


def load_prefixes(kv: memoryview, backend: Any) -> None:
    """Have KV put into a backend's cache and pinned, before what is submitted afterwards."""
    made: PrefixKv = unpack_kv(kv)
    store = prologues_of(backend)
    for prefix in made.prefixes:
        submit = partial(backend.submit_loaded, prefix.token_ids, prefix.start, prefix.data)
        store.load(prefix.token_ids, submit)
