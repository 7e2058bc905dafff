"""All that can be wrong before the service starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.settings.files import secret, written

from palanca.settings import examine
from palanca.settings.checkup import Checked, check_all


def checked(place: Path, text: str) -> Checked:
    return check_all(examine(written(place, text), {}))


def faults(place: Path, text: str) -> list[str]:
    return [str(one).replace(f"{place}/", "") for one in checked(place, text).faults]


def warnings(place: Path, text: str) -> list[str]:
    made = checked(place, text)
    assert () == made.faults
    return [one.replace(f"{place}/", "") for one in made.warnings]


def certificate(place: Path, name: str = "tls") -> None:
    """A self-signed certificate with its key."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-keyout", str(place / f"{name}.key"), "-out", str(place / f"{name}.crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    (place / f"{name}.key").chmod(0o600)


def test_nothing_wrong(tmp_path: Path) -> None:
    """Neither faults nor warnings."""
    secret(tmp_path, "t")
    assert [] == warnings(tmp_path, "auth: {tokens: [{name: a, token_file: t}]}")


def test_faults_of_all_kinds_at_once(tmp_path: Path) -> None:
    """File, rules, targets, secrets and the address."""
    text = """\
interval: 1s
listen: {host: 0.0.0.0}
sources: [{name: s, prometheus: http://p, bearer_file: none}]
thresholds: [{rules: {kv-leek: {a: 1}}}]
targets: [{match: {a: b}, gpu: abacus}]
"""
    found = faults(tmp_path, text)
    assert ["1:11", "2:16", "3:56", "4:23", "5:32"] == [one.partition(":")[2].partition(": ")[0] for one in found]


def test_an_address_is_not_judged_by_faulty_tokens(tmp_path: Path) -> None:
    """A token with a fault is one all the same."""
    assert 1 == len(faults(tmp_path, "listen: {host: 0.0.0.0}\nauth: {tokens: [{name: a}]}"))


@pytest.mark.parametrize("rules", ["none", "palanca.yaml"])
def test_an_overlay_that_is_no_folder(tmp_path: Path, rules: str) -> None:
    """It stands in the file at its place."""
    assert [f"palanca.yaml:1:8: {rules} is not a folder (rules names a folder of rule files)"] == faults(
        tmp_path, f"rules: {rules}"
    )


def test_faults_of_the_overlay(tmp_path: Path) -> None:
    """Those of its rules."""
    written(tmp_path, "id: x\n", "overlay/x.yaml")
    assert any(one.startswith("overlay/x.yaml:1:1: key") for one in faults(tmp_path, "rules: overlay"))


def test_certificates(tmp_path: Path) -> None:
    """A pair that fits and authorities that can be read."""
    certificate(tmp_path)
    text = "listen: {tls: {cert_file: tls.crt, key_file: tls.key, client_ca_file: tls.crt}}\n"
    text += "sources: [{name: a, prometheus: https://p, ca_file: tls.crt, client_cert: tls.crt, client_key: tls.key}]\n"
    text += "alertmanager: {urls: [https://am], ca_file: tls.crt, client_cert: tls.crt, client_key: tls.key}\n"
    assert [] == warnings(tmp_path, text)
    (tmp_path / "tls.key").chmod(0o644)
    assert ["tls.key can be read by everybody; chmod o-r tls.key"] * 3 == warnings(tmp_path, text)


def test_faulty_certificates(tmp_path: Path) -> None:
    """What is missing, what does not fit, and what is something else."""
    certificate(tmp_path)
    certificate(tmp_path, "other")
    text = "listen: {tls: {cert_file: %s, key_file: %s}}"
    assert "palanca.yaml:1:27: none cannot be read: No such file" in faults(tmp_path, text % ("none", "tls.key"))[0]
    assert "none cannot be read" in faults(tmp_path, text % ("tls.crt", "none"))[0]
    assert "cannot be used: key values mismatch" in faults(tmp_path, text % ("tls.crt", "other.key"))[0]
    assert "cannot be used" in faults(tmp_path, text % ("palanca.yaml", "tls.key"))[0]
    ca = "sources: [{name: a, prometheus: https://p, ca_file: palanca.yaml}]"
    assert "palanca.yaml:1:53: palanca.yaml has no certificates that can be used" in faults(tmp_path, ca)[0]
    ca = "alertmanager: {urls: [https://p], ca_file: palanca.yaml}"
    assert "palanca.yaml:1:44: palanca.yaml has no certificates that can be used" in faults(tmp_path, ca)[0]


def test_a_key_with_a_password_asks_nobody(tmp_path: Path) -> None:
    """It is a fault; the service could not ask either."""
    certificate(tmp_path)
    subprocess.run(
        ["openssl", "rsa", "-aes128", "-passout", "pass:secret", "-in", "tls.key", "-out", "locked.key"],
        check=True, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    text = "listen: {tls: {cert_file: tls.crt, key_file: locked.key}}"
    assert "tls.crt and its key cannot be used" in faults(tmp_path, text)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auth: {disabled: true, tokens: [{name: a, token_file: t}]}", "auth.disabled lets everybody in"),
        ("listen: {host: '::'}\nauth: {tokens: [{name: a, token_file: t}]}", "1: tokens come over plain HTTP"),
        ("sources: [{name: a, prometheus: 'http://u:p@h'}]", "1: a password stands in the URL of source a"),
        ("sources: [{name: a, prometheus: https://h, insecure: true}]", "1: the certificate of a is not checked"),
        ("alertmanager: {urls: ['http://u:p@h']}", "1: a password stands in the URL of an Alertmanager; basic_file"),
        (
            "alertmanager: {urls: [https://h], insecure: true}",
            "1: the certificates of the Alertmanagers are not checked",
        ),
        (
            "sources: [{name: a, scrape: [http://h], labels: {x: y}},\n{name: b, scrape: [http://i], labels: {x: y}}]",
            "palanca.yaml:2: sources a and b have the same labels",
        ),
        ("thresholds: [{rules: {kv-cache-saturated: {full: 90}}}]", "full is a ratio; 90 is more than all (the rule"),
        ("thresholds: [{rules: {kv-cache-saturated: {full: 0.85}}}]", "full is 0.85 without this as well"),
        (
            "thresholds: [{match: {a: b}, rules: {kv-leak: {held: 0.7}}},\n{rules: {kv-leak: {held: 0.8}}}]",
            "palanca.yaml:1: kv-leak held is set again for all these targets (palanca.yaml:2)",
        ),
    ],
)
def test_warnings(tmp_path: Path, text: str, message: str) -> None:
    """What works and is odd."""
    secret(tmp_path, "t")
    found = warnings(tmp_path, text)
    assert 1 == len(found)
    assert message in found[0]


def test_what_is_not_odd(tmp_path: Path) -> None:
    """An entry for some targets after one for all, also back to the value of the rule."""
    text = "thresholds:\n- {rules: {kv-cache-saturated: {full: 0.7}}}\n"
    text += "- {match: {a: b}, rules: {kv-cache-saturated: {full: 0.85}}}"
    assert [] == warnings(tmp_path, text)
