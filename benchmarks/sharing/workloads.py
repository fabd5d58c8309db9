"""The workloads: programs, their arguments from real data, and the recorded answers."""

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharing.programs.agents import agent_call
from sharing.programs.chat import chat
from sharing.programs.few_shot import multiple_choice, word_problem
from sharing.programs.judge import judge
from sharing.programs.react import episode, replayed
from sharing.programs.tree_of_thought import tree
from sharing.replay import Answer

DATA = Path(__file__).resolve().parent.parent.parent.parent / "shared" / "data"


class DataMissing(Exception):
    """A data set is not there; the message says which."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A program with the arguments of its instances.

    Attributes:
        name: for tables.
        program: what `@lmc.function` made.
        batch: arguments per instance.
        answer: the recorded answers of its calls; None where none are recorded.
    """

    name: str
    program: Any
    batch: list[dict[str, Any]]
    answer: Answer | None = None


def mmlu(size: float = 1.0) -> Workload:
    """Five-shot questions of 18 subjects, one of each in turn, as they might come in."""
    subjects = sorted(path.name[: -len("_test.csv")] for path in _folder("mmlu/test").iterdir())
    subjects = subjects[: max(4, round(18 * min(1.0, 2 * size)))]
    per_subject = max(2, round(15 * size))
    listed: dict[str, list[dict[str, Any]]] = {}
    answers: dict[str, str] = {}
    for subject in subjects:
        title = subject.replace("_", " ")
        rows = _rows(f"mmlu/dev/{subject}_dev.csv")
        examples = "".join(f"{_question(r)}\nAnswer: {'ABCD'[int(r[5])]}\n\n" for r in rows)
        listed[subject] = []
        for row in _rows(f"mmlu/test/{subject}_test.csv")[:per_subject]:
            given = {"subject": title, "examples": examples, "question": _question(row)}
            listed[subject].append(given)
            answers[given["question"]] = " " + "ABCD"[int(row[5])]
    batch = [listed[subject][i] for i in range(per_subject) for subject in subjects]

    def answer(name: str, text: str) -> Iterable[str]:
        question = text.rpartition("\n\n")[2].removesuffix("\nAnswer:")
        return [answers[question]] if question in answers else []

    return Workload("few-shot, MMLU", multiple_choice, batch, answer)


def gsm8k(size: float = 1.0) -> Workload:
    """Eight worked examples, then one of 100 questions."""
    rows = _lines("gsm8k/train_first1000.jsonl")[:8]
    examples = "".join(f"Question: {r['question']}\nAnswer: {r['answer']}\n\n" for r in rows)
    asked = _lines("gsm8k/test.jsonl")[: max(4, round(100 * size))]
    answers = {row["question"]: f" {row['answer']}\n\nQuestion: " for row in asked}

    def answer(name: str, text: str) -> Iterable[str]:
        question = text.rpartition("Question: ")[2].removesuffix("\nAnswer:")
        return [answers[question]]

    batch = [{"examples": examples, "question": row["question"]} for row in asked]
    return Workload("few-shot, GSM8K", word_problem, batch, answer)


def articles(size: float = 1.0) -> Workload:
    """Judge 25 articles in six respects."""
    texts = _lines("llm_judge/articles.jsonl")[: max(3, round(25 * size))]

    def answer(name: str, text: str) -> Iterable[str]:
        return ["yes"] if name == "related" else []

    return Workload("judge", judge, [{"article": text} for text in texts], answer)


def game_of_24(size: float = 1.0) -> Workload:
    """Searches of 60 puzzles; lines are sampled from those that a search proposed."""
    searches = _lines("tree_of_thought/game24_search_traces_first60.jsonl")
    searches = searches[: max(3, round(60 * size))]
    lines: dict[str, list[str]] = {}
    for search in searches:
        numbers = search["steps"][0]["x"]
        for text in (text for step in search["steps"][:2] for text in step["new_ys"]):
            before, _, last = text.rstrip("\n").rpartition("\n")
            head = f"Numbers: {numbers}\n" + (before + "\n" if before else "")
            lines.setdefault(head, []).append(last + "\n")

    def answer(name: str, text: str) -> Iterable[str]:
        return lines.get("Numbers: " + text.rpartition("Numbers: ")[2], [])

    batch = [{"numbers": search["steps"][0]["x"]} for search in searches]
    return Workload("tree of thought", tree, batch, answer)


def hotpot(size: float = 1.0) -> Workload:
    """100 ReAct episodes on HotpotQA: thoughts and actions are the recorded ones."""
    instruction, episodes = _episodes(size)

    def answer(name: str, text: str) -> Iterable[str]:
        question, _, turns = text.rpartition("Question: ")[2].partition("\n")
        steps = episodes["Question: " + question]
        return [f" {steps[(chr(10) + turns).count(chr(10) + 'Thought ') - 1][name]}\nAction"]

    batch = [
        {"instruction": instruction, "question": question,
         "observations": [step["observation"] for step in steps]}
        for question, steps in episodes.items()
    ]  # fmt: skip
    return Workload("ReAct", episode, batch, answer)


def hotpot_branches(size: float = 1.0) -> Workload:
    """The same episodes, the record appended, and each turn's thought asked for on a branch."""
    instruction, episodes = _episodes(size)
    batch = [
        {"instruction": instruction, "question": question, "steps": steps}
        for question, steps in episodes.items()
    ]
    return Workload("ReAct, on branches", replayed, batch)


def _episodes(size: float) -> tuple[str, dict[str, list[dict[str, str]]]]:
    """Return six worked episodes, and the recorded steps by question."""
    prompts = json.loads(_file("react/react_prompts_naive.json").read_text(encoding="utf-8"))
    episodes: dict[str, list[dict[str, str]]] = {}
    for entry in _lines("react/hotpotqa_100.jsonl")[: max(3, round(100 * size))]:
        episodes.update(entry)
    return prompts["webthink_simple6"].lstrip("\n") + "\n", episodes


def village(size: float = 1.0) -> Workload:
    """The first 500 calls of a trace of generative agents, in its order."""
    calls = _lines("generative_agents/agent_calls.jsonl")[: max(20, round(500 * size))]
    batch = [{"kind": kind, "given": given} for call in calls for kind, given in call.items()]
    return Workload("generative agents", agent_call, batch)


def conversations(size: float = 1.0) -> Workload:
    """125 short conversations of two or three turns and 80 of MT-bench's two turns."""
    batch: list[dict[str, Any]] = []
    answers: dict[str, str] = {}
    for talk in _lines("multi_turn_chat/identity_conversations_every4th.jsonl"):
        turns = talk["conversations"]
        asked = [turn["value"] for turn in turns if turn["from"] == "human"]
        for ask, reply in zip(turns[::2], turns[1::2], strict=False):
            answers.setdefault(ask["value"], reply["value"])
        batch.append({"questions": asked})
    batch += [{"questions": row["turns"]} for row in _lines("mtbench/question.jsonl")]
    for row in _lines("mtbench/reference_answer_gpt-4.jsonl"):
        asked = next(q for q in _lines("mtbench/question.jsonl")
                     if q["question_id"] == row["question_id"])  # fmt: skip
        answers.update(zip(asked["turns"], row["choices"][0]["turns"], strict=False))
    every = max(1, round(1 / size))

    def answer(name: str, text: str) -> Iterable[str]:
        last = text.rpartition("user\n")[2].removesuffix("assistant\n").strip()
        return [answers[last]] if last in answers else []

    return Workload("chat", chat, batch[::every], answer)


MAKERS: dict[str, Callable[[float], Workload]] = {
    "gsm8k": gsm8k,
    "mmlu": mmlu,
    "judge": articles,
    "tree": game_of_24,
    "react": hotpot,
    "branches": hotpot_branches,
    "agents": village,
    "chat": conversations,
}


def _file(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        raise DataMissing(f"there is no data set at {path}")
    return path


def _folder(name: str) -> Path:
    path = DATA / name
    if not path.is_dir():
        raise DataMissing(f"there is no data set at {path}")
    return path


def _lines(name: str) -> list[Any]:
    text = _file(name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _rows(name: str) -> list[list[str]]:
    with _file(name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def _question(row: list[str]) -> str:
    options = "".join(f"\n{letter}. {text}" for letter, text in zip("ABCD", row[1:5], strict=True))
    return row[0].strip() + options
