"""PromQL as a tree in which every part knows its place in the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
SETS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True)
class Node:
    """A part of an expression: characters ``start`` to ``end`` of the text."""

    start: int
    end: int

    @property
    def children(self) -> tuple[Node, ...]:
        """Parts of this part, in the order of the text."""
        return ()


@dataclass(frozen=True)
class Matcher:
    """``label op "value"``; ``at`` is where the quoted value stands."""

    label: str
    op: str
    value: str
    start: int
    at: tuple[int, int]


@dataclass(frozen=True)
class Selector(Node):
    """A vector selector, or with ``range_s`` a matrix selector.

    ``name`` is None where the braces do not give one by ``=``. ``named`` is where the name stands, ``core`` ends name
    and matchers, ``braces`` is where the matchers stand. ``offset`` is the text of its modifiers.
    """

    name: str | None
    matchers: tuple[Matcher, ...]
    named: tuple[int, int]
    braces: tuple[int, int] | None
    core: int
    range_s: float | None = None
    ranged: tuple[int, int] | None = None
    modifiers: str = ""


@dataclass(frozen=True)
class Number(Node):
    """A number, or a duration as a number of seconds."""

    value: float


@dataclass(frozen=True)
class Text(Node):
    """A quoted text."""

    value: str


@dataclass(frozen=True)
class Call(Node):
    """A function; ``named`` is where its name stands."""

    function: str
    arguments: tuple[Node, ...]
    named: tuple[int, int]

    @property
    def children(self) -> tuple[Node, ...]:
        """The arguments."""
        return self.arguments


@dataclass(frozen=True)
class Aggregation(Node):
    """An aggregation; ``by`` and ``without`` are None where not given, ``clause`` is where that stands."""

    op: str
    by: tuple[str, ...] | None
    without: tuple[str, ...] | None
    arguments: tuple[Node, ...]
    named: tuple[int, int]
    clause: tuple[int, int] | None

    @property
    def children(self) -> tuple[Node, ...]:
        """The arguments."""
        return self.arguments

    @property
    def inner(self) -> Node:
        """What is aggregated."""
        return self.arguments[-1]

    def keeps(self, label: str) -> bool:
        """Whether the clause keeps a label."""
        return label not in self.without if self.without is not None else label in (self.by or ())


@dataclass(frozen=True)
class Matching:
    """How two sides are matched: ``on``, or else ``ignoring`` these labels; ``at`` is where that stands.

    ``many`` is the side of which several series may match one of the other, by ``group_left`` or ``group_right``.
    ``filled`` tells that ``fill`` makes up for what does not match.
    """

    labels: tuple[str, ...] = ()
    on: bool = False
    at: tuple[int, int] | None = None
    many: Literal["left", "right"] | None = None
    filled: bool = False

    def by(self, label: str) -> bool:
        """Whether both sides must have the same value of a label."""
        return (label in self.labels) == self.on


@dataclass(frozen=True)
class Binary(Node):
    """Two sides of an operator."""

    op: str
    left: Node
    right: Node
    at: tuple[int, int]
    returns_bool: tuple[int, int] | None = None
    matching: Matching = Matching()

    @property
    def children(self) -> tuple[Node, ...]:
        """Both sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class Unary(Node):
    """A sign before something that is no number."""

    op: str
    inner: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The part inside."""
        return (self.inner,)


@dataclass(frozen=True)
class Parens(Node):
    """Parentheses."""

    inner: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The part inside."""
        return (self.inner,)


@dataclass(frozen=True)
class Subquery(Node):
    """An expression over a range: ``inner[range:step]``."""

    inner: Node
    range_s: float

    @property
    def children(self) -> tuple[Node, ...]:
        """The part inside."""
        return (self.inner,)


def walk(node: Node) -> Iterator[Node]:
    """Give the node and all below it, in the order of the text as far as their beginnings go."""
    todo = [node]
    while todo:
        one = todo.pop()
        yield one
        todo.extend(reversed(one.children))


def bare(node: Node) -> Node:
    """Take parentheses away."""
    while isinstance(node, Parens):
        node = node.inner
    return node


def selectors(node: Node) -> Iterator[Selector]:
    """All selectors below a node."""
    return (one for one in walk(node) if isinstance(one, Selector))


def find(node: Node, wanted: Callable[[Node], bool]) -> Iterator[Node]:
    """All nodes that are wanted, without what lies below those."""
    todo = [node]
    while todo:
        one = todo.pop()
        if wanted(one):
            yield one
        else:
            todo.extend(reversed(one.children))
