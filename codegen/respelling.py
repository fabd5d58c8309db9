"""How many tokens a generated text needs where it stands elsewhere and is encoded anew.

A model may generate tokens that the tokenizer would not choose: ` another` and `ography` become
seven. Let some tokens be generated, and look at the encoding of their text. Each of its tokens lies
wholly inside one generated token, or over a border between two; there is at most one over each
border. What lies inside is the encoding of a part of that generated token, since merges on one
side of a border do not depend on the other. So n generated tokens need at most n times the most
tokens that a part of one token of the vocabulary takes, and n more.
"""

from collections.abc import Iterable

from lmc.ir.target import Tokenizer


def growth_of(tokenizer: Tokenizer) -> int:
    """Return how many tokens each generated token can become at the most, encoded anew."""
    pieces = {piece for piece in tokenizer.token_bytes() if piece}
    texts = {piece.decode("utf-8", "ignore") for piece in pieces}
    # Bytes of a character that a token only begins or ends stand alone.
    broken = max((len(p) - len(p.decode("utf-8", "ignore").encode()) for p in pieces), default=0)
    return max(_most_inside(tokenizer, texts), broken) + 1


def _most_inside(tokenizer: Tokenizer, texts: set[str]) -> int:
    """Return the most tokens that a part of one of some texts is encoded as."""
    pairs = {text for text in texts if len(text) == 2}
    ranked = sorted(((_ceiling(text, pairs), text) for text in texts), reverse=True)
    most, seen = 1, set[str]()
    for ceiling, text in ranked:
        if ceiling <= most:
            break
        for part in _parts(text, most):
            if part not in seen and _ceiling(part, pairs) > most:
                seen.add(part)
                most = max(most, len(tokenizer.encode(part)))
    return most


def _parts(text: str, most: int) -> Iterable[str]:
    """Yield the parts of a text that may be more than `most` tokens, the longest first."""
    for size in range(len(text), 0, -1):
        if len(text[:size].encode()) <= most:
            return
        for start in range(len(text) - size + 1):
            yield text[start : start + size]


def _ceiling(text: str, pairs: set[str]) -> int:
    """Return a bound on the tokens of a text and all its parts, without encoding it.

    Two characters that are a token together are merged where both would be left alone.
    """
    if not text.isascii():
        return len(text.encode())
    alone, longer, before = 1, 0, 0  # most tokens up to here, by the last one; `before` a step ago
    for index in range(1, len(text)):
        following = max(longer, 0 if text[index - 1 : index + 1] in pairs else alone) + 1
        alone, longer, before = following, max(longer, before + 1), max(before, alone, longer)
    return max(alone, longer)
