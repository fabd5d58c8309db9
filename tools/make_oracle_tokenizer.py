"""Write codegen/data/oracle_tokenizer.json: SmolLM2's tokenizer cut to its first merges.

Usage: python tools/make_oracle_tokenizer.py [model.gguf or directory]

The result depends on the model's tokenizer alone, so that running it again gives the same
bytes. Token ids differ from SmolLM2's: the control tokens that are kept come first, then
single bytes, then the merges' results in order.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from lmc.codegen.target import pack_target
from lmc.codegen.tokenizer import load_spec
from lmc.codegen.tokenizer_bytes import byte_alphabet
from lmc.codegen.tokenizer_spec import TokenizerSpec, canonical_json
from lmc.models_store import find_model

CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NUM_MERGES = 4000
OUTPUT = Path(__file__).resolve().parent.parent / "codegen" / "data" / "oracle_tokenizer.json"


def cut_spec(spec: TokenizerSpec) -> TokenizerSpec:
    """Return the tokenizer with three control tokens, all bytes and the first merges."""
    data = json.loads(spec.model_json)
    merges = data["model"]["merges"][:NUM_MERGES]
    tokens = [*CONTROLS, *byte_alphabet(), *("".join(pair) for pair in merges)]
    data["model"]["vocab"] = {token: i for i, token in enumerate(tokens)}
    data["model"]["merges"] = [" ".join(pair) for pair in merges]
    kept = [token for token in data["added_tokens"] if token["content"] in CONTROLS]
    data["added_tokens"] = [token | {"id": CONTROLS.index(token["content"])} for token in kept]
    end = CONTROLS.index("<|im_end|>")
    return replace(
        spec,
        model_json=canonical_json(data),
        controls=tuple(enumerate(CONTROLS)),
        start_ids=(),
        eos_ids=(end,),
        empty_context_id=CONTROLS.index("<|im_start|>"),
    )


def main() -> None:
    """Write the file and say how large it is."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else find_model(None)
    text = pack_target(cut_spec(load_spec(path)))
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(text, encoding="utf-8")
    print(f"{OUTPUT.name}: {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
