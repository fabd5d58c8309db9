"""A benchmark script of the reference frontend's kind runs as one, only its imports changed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lmc
from lmc.lang.global_config import global_config
from lmc.runtime.oracle import Oracle
from lmc.utils import download_and_cache_file, dump_state_text, read_jsonl

SCRIPT = """
import argparse
import time

import lmc as sgl
from lmc.api import set_default_backend
from lmc.lang.api import function, gen
from lmc.test.test_utils import add_common_sglang_args_and_parse, select_sglang_backend
from lmc.utils import dump_state_text, read_jsonl


def main(args):
    backend = select_sglang_backend(args)
    set_default_backend(backend)
    lines = list(read_jsonl(args.data_path))[: args.num_questions]

    @function
    def told(s, question):
        s += sgl.user(question)
        s += sgl.assistant(gen("answer", max_tokens=args.max_tokens))

    tic = time.time()
    states = told.run_batch(
        [{"question": line["q"]} for line in lines],
        temperature=0, num_threads=args.parallel, progress_bar=True,
    )
    assert time.time() >= tic
    dump_state_text(args.result_file, states)
    print(backend.model_info["model_path"], backend.endpoint.get_model_name())
    print(sum(s.get_meta_info("answer")["completion_tokens"] for s in states) > 0)
    print(str(states[0])[len("ProgramState(") : -1] == states[0].text())
    backend.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-path", type=str)
    parser.add_argument("--num-questions", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=5)
    main(add_common_sglang_args_and_parse(parser))
"""


def test_a_script_runs_with_its_arguments(tmp_path: Path) -> None:
    """Its program reads arguments of the command line from around it."""
    (tmp_path / "bench.py").write_text(SCRIPT)
    lines = [json.dumps({"q": f"What is {i}?"}) for i in range(3)]
    (tmp_path / "data.jsonl").write_text("# a comment\n" + "\n".join(lines) + "\n")
    result = subprocess.run(
        [sys.executable, "-W", "error", "bench.py", "--data-path", "data.jsonl",
         "--backend", "oracle", "--parallel", "2", "--result-file", "out.txt"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    name = Oracle().target.name
    assert result.stdout.split() == [name, name, "True", "True"]
    written = (tmp_path / "out.txt").read_text()
    assert [f"What is {i}?" in written for i in range(3)] == [True, True, False]


def test_texts_of_what_is_dumped(tmp_path: Path) -> None:
    """Results by their text, anything else as it prints; more can be added."""
    kept = tmp_path / "kept.txt"
    dump_state_text(kept, ["plain", 5])
    dump_state_text(kept, [["list"]], mode="a")
    written = kept.read_text()
    assert [written.count(text) for text in ("plain\n", "5\n", "['list']\n", " 0 =")] == [
        1,
        1,
        1,
        2,
    ]


def test_files_that_are_there_are_not_fetched(tmp_path: Path) -> None:
    """A fetched file is whole, or not there."""
    source = tmp_path / "source.jsonl"
    source.write_text('{"a": 1}\n\n[2]\n')
    kept = tmp_path / "kept.jsonl"
    assert read_jsonl(download_and_cache_file(source.as_uri(), kept)) == [{"a": 1}, [2]]
    source.write_text("")
    assert read_jsonl(download_and_cache_file(source.as_uri(), kept)) == [{"a": 1}, [2]]
    with pytest.raises(OSError, match="missing"):
        download_and_cache_file((tmp_path / "missing").as_uri(), tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.jsonl", "source.jsonl"]


def test_settings_have_their_home() -> None:
    """By each of the names it is one object."""
    assert global_config is lmc.global_config
