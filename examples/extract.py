"""Extract a record of ten fields from a text, as JSON that a pydantic model always takes.

lmc run examples/extract.py
lmc run examples/extract.py --arg text=@examples/essay.txt

Needs pydantic. The text is from Wikipedia, "Warsaw", by way of XQuAD (CC BY-SA 4.0).
"""

import datetime
import json
from typing import Annotated, Any, Literal

import pydantic

import lmc

WARSAW = (
    "Warsaw's first stock exchange was established in 1817 and continued trading until World War "
    "II. It was re-established in April 1991, following the end of the post-war communist control "
    "of the country and the reintroduction of a free-market economy. Today, the Warsaw Stock "
    "Exchange (WSE) is, according to many indicators, the largest market in the region, with 374 "
    "companies listed and total capitalization of 162 584 mln EUR as of 31 August 2009. From 1991 "
    "until 2000, the stock exchange was, ironically, located in the building previously used as "
    "the headquarters of the Polish United Workers' Party (PZPR)."
)

Name = Annotated[str, pydantic.Field(min_length=1, max_length=32, pattern=r"^[\w .'-]+$")]
Year = Annotated[int, pydantic.Field(ge=1000, le=2100)]


class Amount(pydantic.BaseModel):
    """A sum of money."""

    millions: Annotated[int, pydantic.Field(ge=0, le=10_000_000)]
    currency: Literal["EUR", "USD", "GBP", "PLN"]


class Reopening(pydantic.BaseModel):
    """When a market opened again."""

    year: Year
    month: Annotated[int, pydantic.Field(ge=1, le=12)] | None = None


class Market(pydantic.BaseModel):
    """What a text may tell of a stock exchange."""

    name: Name
    city: Name
    country: Name | None
    founded: Year
    reopened: Reopening | None
    companies: Annotated[int, pydantic.Field(ge=0, le=100_000)]
    capitalization: Amount | None
    date: datetime.date | None
    is_largest_in_region: bool
    buildings: Annotated[list[Name], pydantic.Field(max_length=2)] = []


EXAMPLE = Market(
    name="Wiener Boerse", city="Vienna", country="Austria", founded=1771, reopened=None,
    companies=104, capitalization=Amount(millions=78_000, currency="EUR"),
    date=datetime.date(2010, 6, 30), is_largest_in_region=False, buildings=["Palais Caprara"],
)  # fmt: skip
EXAMPLE_JSON = json.dumps(EXAMPLE.model_dump(mode="json"))
EXAMPLE_TEXT = (
    "The Wiener Boerse in Vienna, Austria, was founded in 1771. On 30 June 2010 it listed 104 "
    "companies worth 78 000 mln EUR. It has its seat in the Palais Caprara."
)


@lmc.function
def extract(s: lmc.State, text: str = WARSAW) -> dict[str, Any]:
    """Return what a text tells of a stock exchange, as a dict that `Market` takes."""
    s += "Text: " + EXAMPLE_TEXT + "\nJSON: " + EXAMPLE_JSON + "\n\n"
    s += "Text: " + text + "\nJSON: "
    record = lmc.gen(
        "record", json_schema=Market.model_json_schema(), max_tokens=256, temperature=0
    )
    s += record
    found: dict[str, Any] = json.loads(s[record])
    return found
