"""Engines as processes: lmc in each of its modes, and the peers that are installed."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
CONSTRAINED = frozenset(("g", "h1", "h8", "h64"))
STATIC = frozenset(("check", "a", "b8", "b32", "c"))


@dataclass(frozen=True, slots=True)
class Kind:
    """An engine that can be started.

    Attributes:
        name: for tables.
        group: "lmc", or the peer, as `make peer-...` calls it.
        script: the adapter.
        arguments: of the adapter.
        precision: of the weights: "bf16" (or fp16) or "quantized".
        only: the workloads that it can run; None for all.
    """

    name: str
    group: str
    script: str
    arguments: tuple[str, ...] = ()
    precision: str = "bf16"
    only: frozenset[str] | None = None

    def can_run(self, workload: str) -> bool:
        """Whether the engine can carry out a workload."""
        return self.only is None or workload in self.only


def lmc_kind(name: str, **mode: str) -> Kind:
    """Return lmc in one mode."""
    precision = "quantized" if mode else "bf16"
    return Kind(name, "lmc", "workloads/run_lmc.py", (json.dumps(mode),), precision)


EXACT = "lmc, bf16"
LMC = (
    lmc_kind(EXACT),
    lmc_kind("lmc, int8 weights", weights="int8"),
    lmc_kind("lmc, int8 weights and activations", weights="int8", activations="int8"),
    lmc_kind("lmc, int4 weights, int8 activations", weights="int4", activations="int8"),
)
PEERS = (
    Kind("OpenVINO GenAI", "openvino", "peers/run_openvino.py"),
    Kind("llama.cpp BF16", "llamacpp", "peers/run_llamacpp.py", ("bf16",)),
    Kind("llama.cpp Q8_0", "llamacpp", "peers/run_llamacpp.py", ("q8_0",), "quantized"),
    Kind("llama.cpp Q4_1", "llamacpp", "peers/run_llamacpp.py", ("q4_1",), "quantized"),
    Kind("vLLM", "vllm", "peers/run_vllm.py"),
    Kind("transformers", "transformers", "peers/run_transformers.py", only=STATIC),
    Kind("guidance", "guidance", "peers/run_guidance.py", only=frozenset(("check", "g"))),
)


def peers_folder() -> Path:
    """Return where the peers are installed."""
    return Path(os.environ.get("LMC_PEERS", ROOT / ".peers")).resolve()


def python_of(kind: Kind) -> Path | None:
    """Return the interpreter of an engine's environment; None where it is not installed."""
    if kind.group == "lmc":
        return Path(sys.executable)
    found = peers_folder() / kind.group / "bin" / "python"
    ready = peers_folder() / kind.group / "installed"
    return found if found.exists() and ready.exists() else None


class EngineFailed(Exception):
    """An engine's process has ended, or told no result."""


class Process:
    """A running engine; answers one command at a time."""

    def __init__(self, kind: Kind, threads: int, log: Path) -> None:
        self.kind = kind
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("w", encoding="utf-8")
        environment = os.environ | {
            "LMC_THREADS": str(threads),
            "OMP_NUM_THREADS": str(threads),
            "LMC_PEERS": str(peers_folder()),
            "HF_HUB_OFFLINE": "1",
        }
        environment.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [str(python_of(kind)), str(BENCHMARKS / kind.script), *kind.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )
        self.about = self._read()

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Have a workload carried out; return what it took.

        Raises:
            EngineFailed: the process has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EngineFailed(f"{self.kind.name} has ended; see {self._log.name}") from None
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailed(f"{self.kind.name} has ended; see {self._log.name}")
        return json.loads(line)  # type: ignore[no-any-return]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
