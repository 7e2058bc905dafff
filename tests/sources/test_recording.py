"""Loading recordings: the real ones, packed and plain, and files that are none."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.permissions import nobody

from palanca.errors import RecordingError
from palanca.signals.store import SampleStore
from palanca.sources.recording import MAX_LINE_BYTES, load

FOLDER = Path(__file__).parents[1] / "data" / "recordings"
RECORDINGS = sorted(FOLDER.glob("*.om.gz"))
TEXT = b'up{job="vllm"} 1 1\nup{job="vllm"} 0 2\nvllm:kv 0.5 1\n# EOF\n'


def samples(store: SampleStore) -> int:
    return sum(block.values.size for name in store.names for block in store.blocks(name))


def written(folder: Path, data: bytes, name: str = "run.om") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def refusal(path: Path, max_bytes: int = 10**7) -> str:
    with pytest.raises(RecordingError) as caught:
        load(path, max_bytes=max_bytes)
    return str(caught.value).removeprefix(str(path))


def test_there_are_recordings() -> None:
    """The folder of real recordings is not empty."""
    assert RECORDINGS


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_real_recordings_load_whole(path: Path) -> None:
    """Every line that is no comment becomes one sample."""
    lines = [line for line in gzip.decompress(path.read_bytes()).splitlines() if not line.startswith(b"#")]

    store = load(path)

    assert len(lines) == samples(store)
    assert {line.partition(b"{")[0].decode() for line in lines} == store.names
    stamps = [float(line.split()[-1]) for line in lines]
    assert (min(stamps), max(stamps)) == store.span()


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_real_recordings_load_in_part(path: Path) -> None:
    """Dropped names are gone, the others are as in the whole recording."""
    whole = load(path)

    part = load(path, keep=lambda name: not name.endswith("_bucket"))

    wanted = {name for name in whole.names if not name.endswith("_bucket")}
    assert wanted == part.names
    assert sum(block.values.size for name in wanted for block in whole.blocks(name)) == samples(part)


@pytest.mark.parametrize("name", ["run.om", "run.om.gz", "run"])
@pytest.mark.parametrize("packed", [False, True])
def test_gzip_is_told_by_its_bytes(tmp_path: Path, name: str, packed: bool) -> None:
    """The suffix of the file does not matter."""
    data = gzip.compress(TEXT, mtime=0) if packed else TEXT

    assert {"up", "vllm:kv"} == load(written(tmp_path, data, name)).names


def test_several_gzip_members_are_one_text(tmp_path: Path) -> None:
    """A file that was packed in parts is read to its end."""
    half = TEXT.index(b"vllm")

    assert 3 == samples(load(written(tmp_path, gzip.compress(TEXT[:half], mtime=0) + gzip.compress(TEXT[half:]))))


def test_lines_across_pieces_are_whole(tmp_path: Path) -> None:
    """Text of several pieces is read as one."""
    lines = b"".join(b'up{job="vllm",instance="%d"} 1 1\n' % number for number in range(70_000))

    assert 70_000 == samples(load(written(tmp_path, lines + b"# EOF\n")))


def test_no_sample_gives_an_empty_store(tmp_path: Path) -> None:
    """A valid recording without samples is no fault of the file."""
    assert frozenset() == load(written(tmp_path, b"# EOF\n")).names


def test_a_pipe_is_a_recording(tmp_path: Path) -> None:
    """A recording need not be seekable."""
    reading, writing = os.pipe()
    try:
        os.write(writing, gzip.compress(TEXT, mtime=0))
        os.close(writing)

        assert 3 == samples(load(Path(f"/dev/fd/{reading}")))
    finally:
        os.close(reading)


def test_refuses_a_missing_file(tmp_path: Path) -> None:
    """A file that is not there is told."""
    assert ": no such file (check the path)" == refusal(tmp_path / "none.om")


def test_refuses_a_directory(tmp_path: Path) -> None:
    """A directory is no recording."""
    assert ": this is a directory (name one recording file in it)" == refusal(tmp_path)


def test_refuses_an_unreadable_file(tmp_path: Path) -> None:
    """A file without permission is told."""
    path = written(tmp_path, TEXT)
    path.chmod(0)

    with nobody(tmp_path):
        assert ": permission denied (make the file readable for the user of palanca)" == refusal(path)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied"), ": permission denied (make the file readable"),
        (OSError(5, "Input/output error"), ": cannot be read: [Errno 5] Input/output error (check"),
    ],
)
def test_refuses_what_the_system_refuses(error: OSError, message: str) -> None:
    """Errors of the operating system become refusals."""

    path = MagicMock(spec=Path)
    path.open.side_effect = error

    assert message == refusal(path)[: len(message)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", ": the file is empty"),
        (gzip.compress(b"", mtime=0), ": the file is empty"),
        (gzip.compress(TEXT, mtime=0)[:-9], ": the gzip file is cut off"),
        (gzip.compress(TEXT, mtime=0)[:12], ": the gzip file is cut off"),
        (gzip.compress(TEXT, mtime=0)[:-8] + bytes(8), ": the gzip file is damaged: CRC check failed"),
        (gzip.compress(TEXT, mtime=0)[:10] + b"\xff" * 40, ": the gzip file is damaged: Error -3"),
        (gzip.compress(TEXT, mtime=0) + b"more", ": the gzip file is damaged: Not a gzipped file"),
        (TEXT[:-6], ":3: no '# EOF' at the end"),
        (gzip.compress(TEXT[:-10], mtime=0), ":3: the recording breaks off here"),
        (gzip.compress(gzip.compress(TEXT, mtime=0), mtime=0), ":1: this is gzip in gzip"),
        (b"x" * (MAX_LINE_BYTES + 1), ":1: a line of more than 1,048,576 bytes"),
        (b"a 1 1\n" + b"x" * (3 * MAX_LINE_BYTES), ":2: a line of more than 1,048,576 bytes"),
        (gzip.compress(bytes(5 * MAX_LINE_BYTES), mtime=0), ":1: a line of more than 1,048,576 bytes"),
        (gzip.compress(b"# a comment\n" * 10**6, mtime=0), ": more than 10,000,000 bytes of text"),
    ],
)
def test_refuses_damaged_files(tmp_path: Path, data: bytes, message: str) -> None:
    """Each kind of damage is told, with a hint in brackets."""
    told = refusal(written(tmp_path, data))

    assert message == told[: len(message)]
    assert told.endswith(")")


def test_a_text_of_the_largest_size_is_read(tmp_path: Path) -> None:
    """The limit itself is allowed."""
    path = written(tmp_path, TEXT)

    assert 3 == samples(load(path, max_bytes=len(TEXT)))
    assert f": more than {len(TEXT) - 1} bytes of text (" == refusal(path, len(TEXT) - 1).partition("record")[0]
