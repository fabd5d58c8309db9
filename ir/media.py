"""Images and films of a prompt: their content, and the ids that stand for them in a context.

A picture is known by its bytes. In a context of ids it is one `MediaToken`, a negative number
made of the SHA-256 of its content, which no tokenizer gives: two contexts are equal exactly
where their texts and pictures are. The token carries the content for those who send it on.
"""

import base64
import hashlib
import io
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lmc.errors import RunError

MAX_BYTES = 64 * 1024 * 1024
"""Larger files are refused: they were hardly meant for a prompt."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
)  # fmt: skip


@dataclass(frozen=True)
class Content:
    """The bytes of an image or film; `num_frames` says how much of a film is looked at."""

    kind: str
    data: bytes
    num_frames: int | None = None

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of kind, frames and bytes, as hexadecimal text."""
        head = f"{self.kind}|{self.num_frames}|".encode()
        return hashlib.sha256(head + self.data).hexdigest()

    @cached_property
    def token(self) -> "MediaToken":
        """What stands for the content in a context."""
        made = MediaToken(-1 - int(self.digest, 16))
        made.content = self
        return made

    @property
    def mime_type(self) -> str:
        """The MIME type, by the first bytes."""
        if self.data[:4] == b"RIFF" and self.data[8:12] == b"WEBP":
            return "image/webp"
        for start, kind in _SIGNATURES:
            if self.data.startswith(start):
                return kind
        return "video/mp4" if self.kind == "video" else "application/octet-stream"

    def message_part(self) -> dict[str, Any]:
        """Return how messages show the content: an image_url or video_url with a data URL."""
        text = base64.b64encode(self.data).decode()
        key = f"{self.kind}_url"
        return {"type": key, key: {"url": f"data:{self.mime_type};base64,{text}"}}


MARK = "<image>"
"""What stands for an image or a video in a prompt's text, as in the reference frontend."""


class MediaToken(int):
    """The id that stands for a picture in a context."""

    content: Content


def load_content(kind: str, source: Any, num_frames: Any = None) -> Content:
    """Return the content that a path, bytes or an image of Pillow stand for.

    Raises:
        RunError: there is no such file, it is too large, or the source is something else.
    """
    frames = kind == "video"
    if frames and (type(num_frames) is not int or num_frames < 1):
        raise RunError(
            f"num_frames of a video is a number from 1, not {num_frames!r:.80}",
            hint='lmc.video("film.mp4", 8)',
        )
    data = _bytes_of(kind, source)
    if len(data) > MAX_BYTES:
        raise RunError(
            f"this {kind} has {len(data):,} bytes; up to {MAX_BYTES:,} are taken",
            hint="scale it down first",
        )
    return Content(kind, data, num_frames if frames else None)


def _bytes_of(kind: str, source: Any) -> bytes:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if isinstance(source, (str, os.PathLike)):
        try:
            with open(source, "rb") as file:
                return file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RunError(
                f"the {kind} {os.fspath(source)!r:.200} cannot be read: {reason}",
                hint="a path is taken from the folder that the program runs in; or give bytes",
            ) from error
    if hasattr(source, "save") and hasattr(source, "tobytes"):
        written = io.BytesIO()
        source.save(written, format="PNG")
        return written.getvalue()
    raise RunError(
        f"{type(source).__name__} is no {kind}: {source!r:.80}",
        hint="give a path, the bytes of a file, or an image of Pillow",
    )


def turn_content(text: str, media: "list[Content]") -> Any:
    """Return the content of a turn as messages show it: with media, its text and then each."""
    if not media:
        return text
    return [{"type": "text", "text": text}, *(content.message_part() for content in media)]


def refusal(target_name: str, kind: str) -> str:
    """Return what is said where a model that reads text only is given something to see."""
    return f"model '{target_name}' reads text only, and this appends {_AN[kind]}"


REFUSAL_HINT = "choose a backend that takes images; lmc.Oracle() does, for tests"
_AN = {"image": "an image", "video": "a video"}
