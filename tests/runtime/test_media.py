"""Images: each request carries its own, contexts differ where pictures do, text models refuse."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lmc
from lmc.errors import LmcError, LowerError, RunError, UsageError
from lmc.frontend.load import load_module
from lmc.ir.media import Content, MediaToken
from lmc.runtime.oracle import Oracle

FOLDER = Path(__file__).resolve().parents[1] / "programs"
PICTURES = load_module(FOLDER / "pictures.py")
COLOURS = [PICTURES.png(name) for name in ("red", "green", "blue")]
MODES = [{"mode": "eager"}, {"passes": ""}, {}]


class Blind(Oracle):
    """An oracle that takes text only, as the models do."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_media = False


def line_of(text: str) -> int:
    """Return the line of the programs' file that holds a text."""
    lines = (FOLDER / "pictures.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def seen(call) -> list[bytes]:
    """Return the images of a call's context."""
    return [item.content.data for item in call.context if isinstance(item, MediaToken)]


@pytest.mark.parametrize("options", MODES, ids=str)
def test_each_request_of_a_batch_carries_its_own_image(options):
    batch = [{"picture": colour, "asked": "Which colour?"} for colour in COLOURS]
    results = PICTURES.question.run_batch(batch, backend=Oracle(), seed=1, **options)
    assert [seen(result.calls[0].call) for result in results] == [[colour] for colour in COLOURS]
    assert len({result["answer"] for result in results}) == 3, "answers depend on the image"
    assert len({result.calls[0].call.context for result in results}) == 3
    again = PICTURES.question.run_batch(batch, backend=Oracle(), seed=1, **options)
    assert [r["answer"] for r in again] == [r["answer"] for r in results]


@pytest.mark.parametrize("options", MODES, ids=str)
def test_only_the_branch_with_the_image_has_it(options):
    run = PICTURES.branches.run(picture=COLOURS[0], width=3, backend=Oracle(), seed=1, **options)
    images = [seen(record.call) for record in sorted(run.calls, key=lambda r: r.lineage)]
    assert sorted(images, key=len) == [[], [], [COLOURS[0]], [COLOURS[0]]]
    assert [len(seen(r.call)) for r in run.calls if r.lineage] == [0, 1, 0]
    assert seen(next(r.call for r in run.calls if not r.lineage)) == [COLOURS[0]]


def test_a_path_the_bytes_and_pillows_object_are_the_same_image(tmp_path):
    class Drawn:
        """Saves itself as Pillow's images do."""

        def save(self, fp, format=None):
            fp.write(COLOURS[0])

        def tobytes(self):
            return b""

    path = tmp_path / "red.png"
    path.write_bytes(COLOURS[0])
    for options in MODES:
        runs = [
            PICTURES.question.run(picture=source, asked="?", backend=Oracle(), seed=2, **options)
            for source in (COLOURS[0], path, str(path), bytearray(COLOURS[0]), Drawn())
        ]
        assert len({run.calls[0].call.context for run in runs}) == 1


def test_contexts_are_equal_exactly_where_the_pictures_are():
    tokens = [Content("image", colour).token for colour in COLOURS]
    assert len(set(tokens)) == 3
    assert all(token < 0 for token in tokens)
    assert Content("image", COLOURS[0]).token == tokens[0]
    films = [Content("video", COLOURS[0], n).token for n in (4, 5)]
    assert len({*films, tokens[0]}) == 3


def test_messages_show_images_after_the_text_of_their_turn():
    run = PICTURES.question.run(picture=COLOURS[0], asked="Which?", backend=Oracle(), seed=2)
    system, user, _ = run.messages()
    assert system["content"] == "You look at pictures."
    text, image = user["content"]
    assert text == {"type": "text", "text": "<image>Which?"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert "<image>Which?" in run.text()
    assert "PNG" not in run.text()


def test_scripts_see_which_image_is_asked_about():
    def script(name, prompt, call):
        assert "<image>?" in prompt
        pictures = [token.content for token in call.context if token < 0]
        return "red" if pictures == [Content("image", COLOURS[0])] else "no"

    batch = [{"picture": colour, "asked": "?"} for colour in COLOURS]
    for options in MODES:
        runs = PICTURES.question.run_batch(batch, backend=Oracle(script), **options)
        assert [run["answer"] for run in runs] == ["red", "no", "no"]


def test_a_model_of_text_refuses_at_compile_time_with_line_and_model():
    with pytest.raises(LowerError, match="model 'oracle' reads text only") as caught:
        PICTURES.question.compile(Blind())
    assert caught.value.location.line == line_of("lmc.image(picture) + asked")
    with pytest.raises(LmcError, match="reads text only"):
        PICTURES.question.run(picture=COLOURS[0], asked="?", backend=Blind())


@pytest.mark.parametrize("options", MODES, ids=str)
def test_a_model_of_text_refuses_at_the_call_where_an_image_is_not_certain(options):
    arguments = {"pictures": [], "asked": "?"}
    assert PICTURES.several.run(**arguments, backend=Blind(), **options)["kind"]
    with pytest.raises(RunError, match="model 'oracle' reads text only") as caught:
        PICTURES.several.run(**arguments | {"pictures": COLOURS}, backend=Blind(), **options)
    assert caught.value.location.line == line_of('" Next: "')


@pytest.mark.parametrize("options", MODES, ids=str)
@pytest.mark.parametrize(
    ("source", "message"),
    [("no_such.png", "cannot be read"), (3, "int is no image"), (None, "NoneType is no image")],
)
def test_what_is_no_image_is_told_at_its_line(options, source, message):
    with pytest.raises(RunError, match=message) as caught:
        PICTURES.question.run(picture=source, asked="?", backend=Oracle(), **options)
    assert caught.value.location.line == line_of("lmc.image(picture) + asked")


def write(folder: Path, constant: str) -> Path:
    path = folder / "prog.py"
    path.write_text(
        f"import lmc\nLOGO = {constant}\n@lmc.function\ndef p(s, picture: lmc.Image):\n"
        "    s += 'See ' + LOGO + lmc.image(picture) + lmc.gen('a', max_tokens=3)\n"
        "    return s['a']\n"
    )
    return path


def test_artifacts_run_with_images_as_arguments_and_refuse_constant_files(tmp_path):
    (tmp_path / "a.png").write_bytes(COLOURS[1])
    plain = load_module(write(tmp_path, "lmc.user('x')")).p
    plain.compile("oracle").save(tmp_path / "p.lmc")
    loaded = lmc.load(tmp_path / "p.lmc")
    runs = [each.run(picture=COLOURS[1], backend=Oracle(), seed=1) for each in (plain, loaded)]
    assert runs[0].calls == runs[1].calls
    done = subprocess.run(
        [sys.executable, "-m", "lmc", "run", str(tmp_path / "p.lmc"), "--model", "oracle", "--json",
         "--seed", "1", "--arg", f"picture=@{tmp_path / 'a.png'}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["return"] == runs[0].value
    (tmp_path / "sub").mkdir()
    fixed = load_module(write(tmp_path / "sub", f"lmc.image({str(tmp_path / 'a.png')!r})")).p
    assert len(seen(fixed.run(picture=COLOURS[0], backend=Oracle()).calls[0].call)) == 2
    with pytest.raises(UsageError, match="cannot hold the file"):
        fixed.compile("oracle").save(tmp_path / "q.lmc")
