"""Quantiles as recorded series, so that whoever reads them need not read all buckets; and what they are made of.

The alerts need some of the quantiles. A group of its own records the others, less often, and how many series have each
bucket. ``recordings`` says what a reader of the same catalogue may take instead of the buckets.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from palanca.alerting import names
from palanca.alerting.options import Options
from palanca.alerting.recording import Recorder
from palanca.alerting.rules import Group, RecordingRule
from palanca.signals.leaves import compose
from palanca.signals.recorded import Recordings

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix
    from palanca.model import Catalogue
    from palanca.signals.leaves import Leaf

INTERVAL_S = 60.0
"""Between evaluations: no alert waits for these, and they cost as much as those that alerts need."""


def group(matrix: Matrix) -> Group:
    """The quantiles that ``matrix`` does not record."""
    recorder, recorded = matrix.recorder, {rule.record for rule in matrix.recordings()}
    interval = max(INTERVAL_S, matrix.options.interval)
    leaves = _recorded(recorder, matrix.catalogue)
    rest = [name for name in leaves if recorder.series(name) not in recorded]
    rules = [RecordingRule(recorder.series(name), recorder.text(name)) for name in rest]
    if leaves:
        counts = recorder.bucket_counts({leaf.family for leaf in leaves.values()})
        rules += [RecordingRule(names.BUCKETS, counts), definitions(matrix, names.QUANTILE_GROUP, interval)]
    return Group(names.QUANTILE_GROUP, interval, tuple(rules))


def definitions(matrix: Matrix, name: str, interval: float) -> RecordingRule:
    """The rule that says by which definitions a group records; it stands last, when all else has been recorded."""
    options = matrix.options
    made = {
        names.DIGEST: _digest(matrix.catalogue, Options(releases=options.releases)),
        names.GROUP: name,
        names.SELECTED: f"{'|'.join(options.prefixes)}{{{','.join(str(one) for one in options.selector)}}}",
    }
    return RecordingRule(names.DEFINITIONS, f"vector({interval:g})", made)


def recordings(catalogue: Catalogue) -> Recordings:
    """What may be read instead of buckets where a server has recorded it by the definitions of this catalogue."""
    recorder = Recorder(catalogue, Options())
    return Recordings(
        definitions=names.DEFINITIONS,
        engines=names.ENGINE,
        buckets=names.BUCKETS,
        digest=_digest(catalogue, Options()),
        groups=frozenset({names.MATRIX_GROUP, names.QUANTILE_GROUP}),
        series={leaf: recorder.series(name) for name, leaf in _recorded(recorder, catalogue).items()},
    )


def _recorded(recorder: Recorder, catalogue: Catalogue) -> dict[str, Leaf]:
    """Signals that are one quantile of one histogram of engines, and nothing else."""
    found: dict[str, Leaf] = {}
    families = catalogue.metrics.families
    for name, signal in catalogue.signals.items():
        plain = signal.quantile is not None and signal.fallback is None and recorder.available(name)
        made = compose(signal, histogram=lambda family: families[family].type == "histogram")
        if plain and made is not None and families[signal.family or ""].scope == "engine":
            found[name] = made.leaves[0]
    return found


def _digest(catalogue: Catalogue, options: Options) -> str:
    """Digest of the expressions as they are without a selector."""
    recorder = Recorder(catalogue, options)
    texts = {recorder.series(name): recorder.text(name) for name in _recorded(recorder, catalogue)}
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]
