"""Programs that see: several images, in roles, helpers, forks and branches."""

import lmc


def png(name: str) -> bytes:
    """Give bytes that look like an image; the oracle asks for no more."""
    return b"\x89PNG\r\n\x1a\n" + name.encode()


def look(s: lmc.State, picture: lmc.Image) -> str:
    """Append an image and describe it."""
    seen = lmc.gen(max_tokens=6)
    s += "Picture: " + lmc.image(picture) + seen
    return s[seen]


@lmc.function
def question(s: lmc.State, picture: lmc.Image, asked: str):
    """One question about one image."""
    s += lmc.system("You look at pictures.")
    s += lmc.user(lmc.image(picture) + asked)
    s += lmc.assistant(lmc.gen("answer", max_tokens=12))
    return [s["answer"], s.messages()]


@lmc.function
def several(s: lmc.State, pictures: list[lmc.Image], asked: str):
    """A loop over images, one of them twice, and a choice after them."""
    s += "Compare."
    for picture in pictures:
        s += " Next: " + lmc.image(picture)
    with s.user():
        s += asked
        if pictures:
            s += lmc.image(pictures[0])
    s += lmc.select("kind", choices=["same", "other"])
    told = [look(s, picture) for picture in pictures]
    return [told, s["kind"], s.text()]


@lmc.function
def branches(s: lmc.State, picture: lmc.Image, width: int):
    """One branch of a fork has the image, the join appends what the branches have."""
    s += "Look. "
    forks = s.fork(width)
    for index, fork in enumerate(forks):
        if index == 1:
            fork += lmc.image(picture)
        fork += f" {index}:" + lmc.gen("seen", max_tokens=4)
    seen = [fork["seen"] for fork in forks]
    forks.join("concate_and_append")
    s += lmc.gen("all", max_tokens=4)
    return seen


@lmc.function
def maybe(s: lmc.State, picture: lmc.Image, shown: bool):
    """Text alone, unless the image is to be shown."""
    what = lmc.image(picture) if shown else lmc.video(picture, 4)
    s += "What? "
    if shown:
        s += what
    s += lmc.gen("a", max_tokens=4) + what + lmc.gen("b", max_tokens=4)
    return len(s.messages())


ARGUMENTS = {
    "question": [{"picture": png("red"), "asked": "Which colour?"}],
    "several": [
        {"pictures": [png(name) for name in names], "asked": "?"}
        for names in ([], ["one"], ["one", "two", "one"])
    ],
    "branches": [{"picture": png("x"), "width": width} for width in (0, 1, 3)],
    "maybe": [{"picture": png("x"), "shown": shown} for shown in (True, False)],
}
SCRIPTS = [{}, {"kind": "same"}, {"kind": "other"}]
