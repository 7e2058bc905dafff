"""Labels of series as the JSON text of an answer: of most series nobody looks at a single label.

A thousand engines are a hundred thousand series, whose labels differ in the number of the expression alone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from palanca.errors import SourceError
from palanca.signals.store import LabelSets, Tagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DECODER = msgspec.json.Decoder(dict[str, str])
_NAME = b'{"__name__":"'
LONGEST_SHOWN = 500


class LabelTexts(LabelSets):
    """``texts`` are JSON in UTF-8 from ``url``. Raises ``SourceError`` for one that is no object of texts."""

    def __init__(self, texts: Sequence[bytes], url: str) -> None:
        self._texts, self._url = texts, url
        self._plain = _all_plain(texts)
        if not self._plain:
            self._whole  # noqa: B018  refuses

    def __len__(self) -> int:
        """Number of series."""
        return len(self._texts)

    @property
    def labels(self) -> Sequence[dict[str, str]]:
        """Labels of each series, without its name."""
        return self._whole.labels

    @property
    def names(self) -> Sequence[str]:
        """Name of each series; empty where it has none."""
        return self._whole.names

    @cached_property
    def _whole(self) -> LabelSets:
        return self._read(self._texts)

    def _read(self, texts: Iterable[bytes]) -> LabelSets:
        found = [self._labels_of(text) for text in texts]
        return LabelSets([labels.pop("__name__", "") for labels in found], found)

    def _labels_of(self, text: bytes) -> dict[str, str]:
        with suppress(msgspec.MsgspecError):
            return _DECODER.decode(text)
        labels = json.loads(text)  # takes half of a surrogate pair for a character
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            wrong = "a label that is no text" if isinstance(labels, dict) else "a result without labels"
            raise SourceError(f"{self._url}: {wrong}: {shown(text)}")
        return labels

    def by(self, tag: str) -> Tagged:
        """Group by a label; only one text of each set of the others is read."""
        if not self._plain:
            return self._whole.by(tag)
        mark = f'"{tag}":"'.encode()
        around = [text.partition(mark) for text in self._texts]
        tails = [rest.partition(b'"') for _, _, rest in around]
        rows: dict[bytes, list[int]] = defaultdict(list)
        for row, (value, _, _) in enumerate(tails):
            rows[value].append(row)
        others = [_unnamed(before) + after for (before, _, _), (_, _, after) in zip(around, tails, strict=True)]
        examples = dict(zip(others, range(len(others)), strict=True))
        read = self._read(self._texts[row] for row in examples.values())
        told = [labels.get(tag, "") for labels in read.labels]
        if told != [tails[row][0].decode() for row in examples.values()]:  # written otherwise: with spaces
            return self._whole.by(tag)
        _, labels, sets = read.by(tag)
        numbers = dict(zip(examples, sets, strict=True))
        found = {value.decode(): mine for value, mine in rows.items()}
        return Tagged(found, labels, [numbers[other] for other in others])


def shown(text: bytes) -> str:
    """The beginning of a JSON text, for messages."""
    return text.decode(errors="replace")[:LONGEST_SHOWN]


def _all_plain(texts: Sequence[bytes]) -> bool:
    """Whether each is ``{"label":"text","label":"text"}``, as far as quotes tell: two around each of both.

    What is no object of texts and looks like one all the same is refused when it is read.
    """
    text = b"\n".join([b"", *texts])
    objects = text.count(b"\n{") == len(texts)
    return objects and b"\\" not in text and text.count(b'"') == 4 * text.count(b'":"')


def _unnamed(text: bytes) -> bytes:
    """Leave out the name, which Prometheus writes first."""
    return text.split(b'"', 4)[-1] if text.startswith(_NAME) else text
