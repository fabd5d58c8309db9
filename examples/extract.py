"""Extract a record from a text as JSON that always parses.

lmc run examples/extract.py --arg text="Ada Lovelace was born in London in 1815."
"""

import json
from typing import Any

import lmc

WORDS = r"[A-Z][a-z]{1,14}( [A-Z][a-z]{1,14}){0,2}"
RECORD = r'\{"name": "' + WORDS + r'", "city": "' + WORDS + r'", "year": (1[0-9]{3}|20[0-9]{2})\}'


@lmc.function
def extract(s: lmc.State, text: str) -> dict[str, Any]:
    """Return the person, the city and the year that a text tells of, as a dict."""
    s += "Text: Carl Benz was born in Karlsruhe in 1844.\n"
    s += 'JSON: {"name": "Carl Benz", "city": "Karlsruhe", "year": 1844}\n\n'
    s += "Text: Frida Kahlo died in Mexico City in 1954.\n"
    s += 'JSON: {"name": "Frida Kahlo", "city": "Mexico City", "year": 1954}\n\n'
    s += "Text: " + text + "\nJSON: "
    record = lmc.gen("record", regex=RECORD, max_tokens=96, temperature=0)
    s += record
    found: dict[str, Any] = json.loads(s[record])
    found["century"] = (found["year"] - 1) // 100 + 1
    return found
