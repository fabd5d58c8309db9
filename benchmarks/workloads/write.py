"""Write the workloads as files: arguments for `lmc bench`, and requests for any other driver.

python benchmarks/workloads/write.py build/workloads
lmc bench benchmarks/workloads/programs.py:judge --args build/workloads/h8.jsonl
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lmc.backends import open_target
from workloads.catalogue import build_all
from workloads.requests import as_json
from workloads.texts import DATA, Texts, read_rows


def main() -> None:
    """Write NAME.jsonl and NAME.requests.json for every workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--repeat", type=int, default=1, help="which texts")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    texts = Texts(open_target(None).tokenizer, read_rows(options.data), options.repeat)
    for name, workload in build_all(None, texts).items():
        lines = "".join(json.dumps(each) + "\n" for each in workload.batch)
        (options.folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        requests = json.dumps(as_json(workload.requests), indent=1)
        (options.folder / f"{name}.requests.json").write_text(requests, encoding="utf-8")
        print(f"{name}: program {workload.program.name}, {len(workload.batch)} runs")


if __name__ == "__main__":
    main()
