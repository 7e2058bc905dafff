"""The history as data: ``palanca.history/v1``, what the REST API answers. The models below are the contract."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, StrictBool

from palanca.history.entries import EventKind
from palanca.model import Cause, Severity
from palanca.render.document import EvidenceDocument, FindingDocument, Part, Time

SCHEMA: Literal["palanca.history/v1"] = "palanca.history/v1"


class StateDocument(Part):
    """Whether the history is being written."""

    enabled: bool = Field(description="False while the database cannot be used; diagnoses go on without it.")
    reason: str | None = Field(description="Why it cannot, and how to mend it; null where it can.")
    since: Time | None = Field(description="Since when it is so; null before the first use.")

    @property
    def off(self) -> str:
        """Why it is not being written, in words; empty while it is."""
        return "" if self.enabled else self.reason or "no reason was given"


class WorsenedDocument(Part):
    """A moment at which the severity rose above all that the episode had had."""

    time: Time = Field(description="When.")
    severity: Severity = Field(description="The new severity.")


class AcknowledgedDocument(Part):
    """That somebody looks after it."""

    time: Time = Field(description="When.")
    who: str = Field(description="Who said so.")
    note: str = Field(description="What they wrote; may be empty.")


class VerificationDocument(Part):
    """Result of checking whether a change helped."""

    time: Time = Field(description="When it was attached.")
    document: dict[str, Any] = Field(description="As palanca verify gives it: palanca.verification/v1.")


class EpisodeDocument(Part):
    """The time that one rule fired at one engine."""

    id: int = Field(description="Number of the episode; never used again.")
    source: str = Field(description="Name of the data source.")
    target: dict[str, str] = Field(description="Labels that identify the engine.")
    rule: str = Field(description="Id of the rule.")
    cause: Cause = Field(description="Cause, as last diagnosed.")
    state: Literal["firing", "resolved"] = Field(description="resolved: it has ended.")
    severity: Severity = Field(description="The worst severity that it reached.")
    since: Time = Field(description="When the condition began to hold.")
    since_at_least: bool = Field(description="True where it may have held earlier than the data reach.")
    began: Time = Field(description="When it fired, after the rule's for.")
    ended: Time | None = Field(description="When it was resolved; null while it fires.")
    lasted_s: float | None = Field(description="Seconds between both; null while it fires.")
    lapsed: Time | None = Field(description="Since when it does not hold, while keep_firing_for runs; else null.")
    reason: str | None = Field(description="Why it was resolved, where not by the rule, such as target removed.")
    worsened: tuple[WorsenedDocument, ...] = Field(description="When it became worse.")
    first: FindingDocument = Field(description="The finding as it fired: evidence and recommendations of that time.")
    latest: FindingDocument = Field(description="The newest finding.")
    peak: tuple[EvidenceDocument, ...] = Field(description="Each comparison at its most extreme value while firing.")
    acknowledged: AcknowledgedDocument | None = Field(description="Who looks after it; null where nobody said so.")
    verifications: tuple[VerificationDocument, ...] = Field(description="Whether changes helped, the oldest first.")


class ChangeDocument(Part):
    """One configuration value that changed."""

    name: str = Field(description="Name of the fact, such as max_num_seqs, or vllm_release.")
    before: StrictBool | int | float | str | None = Field(description="Value before; null where it was not set.")
    after: StrictBool | int | float | str | None = Field(description="Value after; null where it is not set.")


class EventDocument(Part):
    """Something that happened."""

    id: int = Field(description="Number of the event; never used again.")
    time: Time = Field(description="When.")
    kind: EventKind = Field(description="What happened.")
    source: str = Field(description="Name of the data source.")
    target: dict[str, str] | None = Field(description="Labels of the engine; null where it is about none.")
    episode: int | None = Field(description="Number of the episode; null where it is about none.")
    rule: str | None = Field(description="Id of the rule; null where it is about none.")
    severity: Severity | None = Field(description="Worst severity of the episode until then; null without one.")
    reason: str | None = Field(
        description="Why: of a resolution other than by the rule, what shows a restart, the error of a source or of "
        "the database, the verdict of a verification."
    )
    since: Time | None = Field(description="Start of the new process, or beginning of what is over now.")
    changes: tuple[ChangeDocument, ...] = Field(description="Configuration that changed.")
    who: str | None = Field(description="Who did it, where a person did.")
    note: str | None = Field(description="What they wrote.")


class HistoryDocument(Part):
    """Base of the answers."""

    schema_: Literal["palanca.history/v1"] = Field(default=SCHEMA, alias="schema", description="Name of this format.")
    history: StateDocument = Field(description="State of the history when this was answered.")


class EpisodesDocument(HistoryDocument):
    """A page of episodes, the newest first."""

    episodes: tuple[EpisodeDocument, ...] = Field(description="Episodes; none where the history cannot be read.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


class EventsDocument(HistoryDocument):
    """A page of events, the newest first."""

    events: tuple[EventDocument, ...] = Field(description="Events; none where the history cannot be read.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


class OneEpisodeDocument(HistoryDocument):
    """One episode."""

    episode: EpisodeDocument | None = Field(description="The episode; null where there is none of that number.")
