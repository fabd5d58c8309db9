"""The start-up self-check: what is exact is said to be, and what is not never is."""

import json

import pytest
import torch
from model_support import TINY, smollm, write_model

import lmc
from lmc.kernels import default_kernels
from lmc.kernels.reference import ReferenceKernels
from lmc.runtime.engine import self_check
from lmc.runtime.engine.engine import Engine
from lmc.runtime.engine.self_check import check_exactness, differences
from lmc.runtime.exactness import Exactness
from lmc.runtime.models import CausalModel
from lmc.runtime.oracle import Oracle
from lmc.summary import json_object, summary_lines


@pytest.fixture(autouse=True)
def checks_anew():
    """Have every test check for itself."""
    self_check.forget_checks()
    yield
    self_check.forget_checks()


class Inexact:
    """Kernels that promise exactness and break it by what `spoil` does to a batch's results."""

    is_exact = True

    def __init__(self, spoil) -> None:
        self._inner = default_kernels()
        self.fingerprint = f"spoiled {spoil.__name__}"
        self._spoil = spoil

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def attention(self, q, keys, values, index, out):
        self._inner.attention(q, keys, values, index, out)
        self._spoil(index, out)


def nudge(out):
    out.copy_((out.float() * 1.01).to(out.dtype))


def by_the_batch(index, out):
    """Results depend on how many sequences there are."""
    if len(index.table_rows) > 1:
        nudge(out)


def by_the_chunk(index, out):
    """Single rows take another path, as they do in many libraries."""
    if len(out) == 1:
        nudge(out)


def by_the_cache(index, out):
    """Results differ behind a prefix that was not computed in the same step."""
    if index.positions[0] >= 48:
        nudge(out)


def only_beside_long_ones(index, out):
    """A rare case: differs where a neighbour has more than ten rows."""
    if len(index.table_rows) > 1 and index.seq_starts.diff().max() > 10:
        nudge(out)


CHUNK = "results differ with the chunks that a prompt is computed in"
BATCH = "results differ with the sequences in the same batch"
CACHE = "results differ behind a cached prefix"


@pytest.fixture(scope="module")
def tiny_path(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("tiny"), TINY)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (by_the_batch, {BATCH, CACHE}),
        (by_the_chunk, {CHUNK}),
        (by_the_cache, {CHUNK, CACHE}),
        (only_beside_long_ones, {BATCH, CACHE}),
    ],
)
def test_a_model_that_is_not_exact_is_found_out(tiny_path, tmp_path, spoil, named):
    model = CausalModel.load(tiny_path, kernels=Inexact(spoil))
    assert set(differences(model)) == named
    found = check_exactness(model, tmp_path)
    assert (found.state, found.is_exact) == ("differs", False)
    assert str(found).startswith("NOT exact here: results differ ")
    assert list(tmp_path.iterdir()) == [], "only passed checks are kept"


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_our_kernels_pass(tiny_path, tmp_path, dtype):
    model = CausalModel.load(tiny_path, dtype)
    assert differences(model) == []
    assert check_exactness(model, tmp_path) == Exactness("checked")


@pytest.mark.model
def test_the_real_model_passes(tmp_path):
    assert check_exactness(smollm(), tmp_path) == Exactness("checked")


def test_kernels_that_promise_nothing_are_told(tiny_path, tmp_path):
    model = CausalModel.load(tiny_path, kernels=ReferenceKernels("no compiler"))
    found = check_exactness(model, tmp_path)
    assert (found.state, found.is_exact) == ("unclaimed", False)
    assert "these kernels do not promise it" in str(found)
    assert list(tmp_path.iterdir()) == []


def test_a_passed_check_is_kept_for_what_it_was_made_on(tiny_path, tmp_path, monkeypatch):
    model = CausalModel.load(tiny_path)
    computed = []
    monkeypatch.setattr(self_check, "differences", lambda m: computed.append(m) or differences(m))
    for _ in range(2):
        check_exactness(model, tmp_path)
        self_check.forget_checks()
    assert len(computed) == 1
    (kept,) = tmp_path.iterdir()
    basis = json.loads(kept.read_text())
    assert basis["torch"] == torch.__version__
    assert {"kernels", "threads", "dtype", "shape", "check"} <= set(basis)
    kept.write_text(kept.read_text()[:-1])
    check_exactness(model, tmp_path)
    assert len(computed) == 2, "a damaged note is no proof"
    check_exactness(CausalModel.load(tiny_path, "float32"), tmp_path)
    assert len(computed) == 3, "another dtype is checked for itself"
    for number, activations in enumerate(("full", "int8"), 4):
        other = CausalModel.load(tiny_path, weights="int8", activations=activations)
        assert check_exactness(other, tmp_path) == Exactness("checked")
        assert len(computed) == number, "another precision too"


def test_a_folder_that_cannot_be_written_is_no_failure(tiny_path, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    model = CausalModel.load(tiny_path)
    assert check_exactness(model, blocked / "below") == Exactness("checked")


def test_a_check_that_fails_says_so(tiny_path, tmp_path, monkeypatch):
    model = CausalModel.load(tiny_path)

    def broken(model, batch, kv):
        raise ValueError("no such kernel")

    monkeypatch.setattr(CausalModel, "forward", broken)
    found = check_exactness(model, tmp_path)
    assert found.state == "unknown"
    assert "ValueError: no such kernel" in str(found)


@lmc.function
def short(s):
    s += "a" + lmc.gen("x", max_tokens=2)


def test_a_run_tells_what_was_found(tiny_path, fakes, monkeypatch, tmp_path):
    kernels = {"good": None, "bad": Inexact(by_the_batch)}
    models = {name: CausalModel.load(tiny_path, kernels=used) for name, used in kernels.items()}
    monkeypatch.setenv("LMC_CACHE", str(tmp_path))  # for verdicts; kernels are not built anew
    told = {}
    for name, model in models.items():
        with Engine(model, fakes.FakeTarget(), num_slots=256) as engine:
            result = short.run(backend=engine, seed=1)
            assert engine.stats().exactness == engine.exactness == result.exactness
            assert (engine.stats() - engine.stats()).exactness == result.exactness
            told[name] = summary_lines("short", [result], 1.0)[-1].split(maxsplit=1)
            assert json.loads(json_object(result))["exact"] == str(result.exactness)
    assert told["good"] == ["exact", "checked"]
    assert told["bad"][1].startswith("NOT exact here: results differ with the sequences in the")
    result = short.run(backend=Oracle())
    assert result.exactness == Exactness("by construction")
    with fakes.make_engine() as engine:
        assert engine.exactness.state == "unknown"
