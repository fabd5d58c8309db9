"""Question answering: few-shot, choices by likelihood, retrieval, expert answer, long JSON."""

import lmc

SHOTS = [
    {"q": "How many legs have three hens?", "a": "6"},
    {"q": "What is half of ten?", "a": "5"},
]


@lmc.function
def few_shot(s, question, shots=None):
    """Answer after worked examples."""
    s += "Answer with a number.\n\n"
    for shot in SHOTS if shots is None else shots:
        s += "Q: " + shot["q"] + "\nA: " + shot["a"] + "\n\n"
    s += "Q: " + question + "\nA:" + lmc.gen("answer", max_tokens=12, stop=["Q:", "\n"])
    return s["answer"].strip()


@lmc.function
def likely_ending(s, context, endings):
    """Choose the likeliest ending of a story."""
    s += "The dog saw the gate open. It ran out.\n"
    s += "The kettle whistled. She poured the tea.\n"
    s += context
    s += lmc.select("ending", choices=endings, choices_method="greedy_token_selection")
    return endings.index(s["ending"])


@lmc.function
def retrieval(s, passages: list, question: str):
    """Answer from passages."""
    s += "Answer from the passages.\n\n"
    for number, passage in enumerate(passages, start=1):
        s += f"[{number}] {passage}\n"
    s += "\nQuestion: " + question + "\nThought: " + lmc.gen("thought", max_tokens=16, stop="\n")
    s += "\nAnswer: " + lmc.gen("answer", max_tokens=8, stop="\n")


@lmc.function
def expert(s, question):
    """Ask who would know, then ask that person."""
    s += "Question: " + question + "\n"
    s += "A person who knows this well is" + lmc.gen("expert", max_tokens=8, stop=[".", "\n"])
    expert = s["expert"].strip()
    s += f".\n{expert or 'somebody'} says:" + lmc.gen("answer", max_tokens=16, stop="\n")
    return f"{expert!r:>12}: {s['answer']}"


@lmc.function
def long_json(s, document):
    """Four values between constant keys."""
    s += document + "\nHere is the record.\n{\n"
    s += '  "name": "' + lmc.gen("name", max_tokens=8, stop='"') + '",\n'
    s += '  "place": "' + lmc.gen("place", max_tokens=8, stop='"') + '",\n'
    s += '  "year": ' + lmc.gen("year", max_tokens=8, regex=r"[12][0-9]{3}") + ",\n"
    s += '  "note": "' + lmc.gen("note", max_tokens=8, stop='"') + '"\n}'


@lmc.function
def json_record(s, subject):
    """One generation under a long regex."""
    s += "A record about " + subject + ":\n"
    s += lmc.gen("record", max_tokens=80, regex=RECORD)
    return s["record"]


RECORD = (
    r'\{"name": "[A-Z][a-z]{1,6}", "age": [1-9][0-9]?, "tags": \["[a-z]{1,4}"(, "[a-z]{1,4}")?\]\}'
)

ARGUMENTS = {
    "few_shot": [{"question": "1 and 1?"}, {"question": "x", "shots": []},
                 {"question": "y", "shots": [{"q": "a", "a": "b"}]}],
    "likely_ending": [{"context": "He sat", "endings": [" down.", " up.", " on a chair."]}],
    "retrieval": [{"passages": ["Rain is wet.", "Sand is dry."], "question": "What is wet?"},
                  {"passages": [], "question": "?"}],
    "expert": [{"question": "Why is the sky blue?"}],
    "long_json": [{"document": "Ada was born in London. " * 20}],
    "json_record": [{"subject": "a cat"}],
}  # fmt: skip

SCRIPTS = [{}, {"expert": " Ada", "name": "Ada", "ending": " on a chair."}, {"expert": " "}]
