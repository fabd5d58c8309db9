"""Perplexity of a model on real text, with its weights kept in several ways.

Texts are records of GSM8K (question and answer) and articles of XQuAD in English. They are joined,
cut into windows of equal length, and each window is computed at once; the perplexity is
exp of the mean negative log-likelihood of every token behind a window's first.

    python benchmarks/perplexity.py --data FOLDER [--model PATH] [--windows N] [--length N]
"""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import torch
from compare.page import put
from compare.tables import table

from lmc.codegen.target import load_target
from lmc.models_store import find_model
from lmc.runtime.models import CausalModel, ForwardBatch

MODES = (
    ("full", "full"),
    ("stored", "full"),
    ("stored", "int8"),
    ("int8", "full"),
    ("int8", "int8"),
    ("int4", "full"),
    ("int4", "int8"),
)
"""Weights and activations; the first is what the others are compared with."""
EQUAL = 0.01
"""A change of perplexity up to which the quality counts as equal."""
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def gsm8k(folder: Path) -> Iterator[str]:
    """Yield questions with their answers."""
    for line in (folder / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield f"{record['question']}\n{record['answer']}\n\n"


def xquad(folder: Path) -> Iterator[str]:
    """Yield paragraphs with their questions and first answers."""
    data = json.loads((folder / "xquad" / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    for article in data:
        for paragraph in article["paragraphs"]:
            asked = (f"{q['question']}\n{q['answers'][0]['text']}\n" for q in paragraph["qas"])
            yield f"{paragraph['context']}\n{''.join(asked)}\n"


def windows(texts: Iterator[str], tokenizer: object, count: int, length: int) -> torch.Tensor:
    """Return the first windows of joined texts, int32 [count, length]."""
    ids: list[int] = []
    for text in texts:
        ids += tokenizer.encode(text)
        if len(ids) >= count * length:
            return torch.tensor(ids[: count * length], dtype=torch.int32).view(count, length)
    raise SystemExit(f"the texts have only {len(ids)} tokens, {count * length} are wanted")


def loss(model: CausalModel, ids: torch.Tensor) -> tuple[float, int]:
    """Return the summed negative log-likelihood of a window [length], and of how many tokens."""
    length = ids.shape[0]
    order = torch.arange(length, dtype=torch.int32)
    batch = ForwardBatch(
        token_ids=ids,
        positions=order,
        slots=order,
        seq_starts=torch.tensor([0, length], dtype=torch.int32),
        table_rows=torch.zeros(1, dtype=torch.int32),
        page_table=order.view(1, -1),
        logit_rows=order[:-1],
    )
    logits = model.forward(batch, model.new_kv(length))
    chosen = logits.gather(1, ids[1:].long().unsqueeze(1)).squeeze(1).double()
    return float((model.kernels.log_sum_exp(logits) - chosen).sum()), length - 1


def perplexity(model: CausalModel, texts: torch.Tensor) -> float:
    """Return the perplexity over windows [count, length]."""
    with torch.inference_mode():
        sums, counts = zip(*(loss(model, ids) for ids in texts), strict=True)
    return math.exp(sum(sums) / sum(counts))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model directory or .gguf file")
    parser.add_argument("--data", type=Path, required=True, help="folder with gsm8k and xquad")
    parser.add_argument("--windows", type=int, default=24)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    options = parser.parse_args()
    path = find_model(options.model)
    tokenizer = load_target(path).tokenizer
    texts = {
        name: windows(read(options.data), tokenizer, options.windows, options.length)
        for name, read in (("GSM8K", gsm8k), ("XQuAD", xquad))
    }
    rows: list[list[str]] = []
    base: dict[str, float] = {}
    for weights, activations in MODES:
        model = CausalModel.load(path, options.dtype, weights=weights, activations=activations)
        cells, changes = [], []
        for name, ids in texts.items():
            value = perplexity(model, ids)
            changes.append(value / base.setdefault(name, value) - 1)
            cells.append(f"{value:.3f} ({changes[-1]:+.2%})")
        verdict = "yes" if all(change <= EQUAL for change in changes) else "no"
        rows.append([weights, activations, *cells, verdict])
        print(*rows[-1], sep=" | ", flush=True)
    made = table(["weights", "activations", *texts, "equal quality"], rows)
    if options.write:
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), "perplexity", made), encoding="utf-8")


if __name__ == "__main__":
    main()
