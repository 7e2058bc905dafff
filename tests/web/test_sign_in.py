"""Signing in: what a browser is given, for how long, and what is refused."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from tests.api.apps import Answer, World, fleet, world

from palanca.api.access import Token, Tokens
from palanca.api.guard import SESSION, Rules
from palanca.web.sign_in import ATTEMPTS, LASTS_S, local

SECRET, OTHER = "a-token-that-is-long-enough", "another-one-that-is-too"
TOKENS = [Token("ana", "write", SECRET), Token("grafana", "read", OTHER)]
HTML = {"Accept": "text/html,*/*"}


def closed(*tokens: Token) -> World:
    return world(fleet(3), rules=Rules(Tokens(tokens or TOKENS)))


def signed(made: World, token: str = SECRET, to: str = "", **headers: str) -> Answer:
    """Send the form."""
    names = {"Content-Type": "application/x-www-form-urlencoded"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return made.send("POST", "/sign-in", headers=names, body=urlencode({"token": token, "to": to}).encode())


def cookie(answer: Answer) -> str:
    return answer["set-cookie"].partition(";")[0]


def test_the_cookie() -> None:
    """Is signed, for this site and no script, and holds no token."""
    answer = signed(closed())
    assert (303, "./") == (answer.status, answer["location"])
    parts = answer["set-cookie"].split("; ")
    assert parts[0].startswith(f"{SESSION}=")
    assert {"HttpOnly", "SameSite=strict", f"Max-Age={LASTS_S}", "Path=/"} == set(parts[1:])
    assert SECRET not in answer["set-cookie"]


@pytest.mark.parametrize(
    "headers", [{"X_Forwarded_Proto": "https"}, {"X_Forwarded_Proto": "HTTPS"}, {"X_Forwarded_Proto": "https, http"}]
)
def test_over_tls_it_is_secure(headers: dict[str, str]) -> None:
    """Be it in front of palanca."""
    assert "Secure" in signed(closed(), **headers)["set-cookie"]


@pytest.mark.parametrize("path", ["/", "/engine?model=qwen", "/timeline", "/rules", "/size", "/diagnose", "/metrics"])
def test_it_reads(path: str) -> None:
    """Pages and the API alike."""
    made = closed()
    assert 200 == made.get(*path.split("?"), cookie=cookie(signed(made))).status
    assert 200 == made.get(*path.split("?"), authorization=f"Bearer {OTHER}").status


def test_beside_what_a_proxy_sends() -> None:
    """Its own name and password are nobody's here; the cookie still is somebody's."""
    made = closed()
    shown = {"cookie": cookie(signed(made)), "authorization": "Basic cHJveHk6cHJveHk="}
    assert 200 == made.get("/", **shown).status


def test_it_does_not_write() -> None:
    """Though the token would: a browser sends cookies with what any site makes it send."""
    made = closed()
    answer = made.post("/api/v1/history/1/acknowledge", {}, cookie=cookie(signed(made)))
    assert 401 == answer.status
    assert 404 <= made.post("/api/v1/history/1/acknowledge", {}, authorization=f"Bearer {SECRET}").status


def test_it_ends() -> None:
    """After a week, with its token, and where one letter differs."""
    made = closed()
    mine = cookie(signed(made))
    assert 401 == closed(TOKENS[1]).get("/", cookie=mine).status
    assert 401 == made.get("/", cookie=mine[:-1] + ("0" if mine[-1] != "0" else "1")).status
    until = mine.partition("=")[2].partition(".")[0]
    assert 401 == made.get("/", cookie=mine.replace(until, str(int(until) + 1))).status
    made.backend.clock += LASTS_S - 60
    assert 200 == made.get("/", cookie=mine).status
    made.backend.clock += 120
    assert 401 == made.get("/", cookie=mine).status


@pytest.mark.parametrize("value", ["", ".", "x.y", "99999999999999999999.aa", "1e9.aa", "²³.aa", "\x80\xff"])
def test_any_cookie(value: str) -> None:
    """Is refused, and no fault of palanca."""
    assert 401 == closed().get("/", cookie=f"{SESSION}={value}").status


@pytest.mark.parametrize("token", ["", "wrong", SECRET[:-1], SECRET + "x", "é☃"])
def test_other_tokens(token: str) -> None:
    """Say so, and set nothing."""
    answer = signed(closed(), token)
    assert 401 == answer.status
    assert "not known" in answer.text
    assert answer.get("set-cookie") is None


def test_too_many_attempts() -> None:
    """Even the right token has to wait; other addresses are not asked here."""
    made = closed()
    for _ in range(ATTEMPTS):
        assert 401 == signed(made, "wrong").status
    answer = signed(made)
    assert (429, "6") == (answer.status, answer["retry-after"])
    assert "6 s" in answer.text
    made.backend.clock += 7
    assert 303 == signed(made).status
    assert 401 == signed(made, "wrong").status


@pytest.mark.parametrize(
    "headers",
    [{"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "https://evil.example"},
     {"Origin": "null"}, {"Origin": "http://[bad"}],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out"])
def test_forms_of_other_sites(headers: dict[str, str], path: str) -> None:
    """Are refused."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    assert 403 == closed().send("POST", path, headers=names, body=b"token=x").status


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec_Fetch_Site": "same-origin"},
        {"Sec_Fetch_Site": "none"},
        {"Origin": "http://localhost:9797"},
        {"Origin": "http://palanca.example:80", "X_Forwarded_Host": "palanca.example:80"},
    ],
)
def test_forms_of_its_own_pages(headers: dict[str, str]) -> None:
    """Are taken."""
    assert 303 == signed(closed(), **headers).status


@pytest.mark.parametrize("to", ["rules/kv-cache-saturated", "engine?match=a%3Db", "?q=x", "timeline", ""])
def test_back_to_where_one_came_from(to: str) -> None:
    """To pages of this server."""
    assert f"./{to}" == signed(closed(), to=to)["location"]
    assert to == local(to)


@pytest.mark.parametrize(
    "to",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)",
     "..//evil.example", "x/../..//evil.example", "./", "rules//evil", "a b", "?a#b", "rules\n", "@evil.example",
     "Rules"],
)  # fmt: skip
def test_and_nowhere_else(to: str) -> None:
    """What could lead elsewhere leads to the first page."""
    assert "" == local(to)
    assert "./" == signed(closed(), to=to)["location"]


@pytest.mark.parametrize(
    ("path", "query", "location"),
    [("/", "", "sign-in"), ("/", "q=a", "sign-in?to=%3Fq%3Da"),
     ("/engine", "match=a%3Db", "sign-in?to=engine%3Fmatch%3Da%253Db"),
     ("/docs", "", "sign-in?to=docs"), ("/rules/kv-leak", "", "../sign-in?to=rules%2Fkv-leak")],
)  # fmt: skip
def test_pages_lead_to_the_form(path: str, query: str, location: str) -> None:
    """Relative, whatever is in front; programs get the problem."""
    answer = closed().get(path, query, **HTML)
    assert (303, location) == (answer.status, answer["location"])
    assert 401 == closed().get(path, query).status
    assert 401 == closed().get("/diagnose", **HTML).status


def test_who_is_signed_in_sees_no_form() -> None:
    """And nor does anybody where no tokens are asked for."""
    made = closed()
    answer = made.get("/sign-in", "to=rules", cookie=cookie(signed(made)))
    assert (303, "./rules") == (answer.status, answer["location"])
    assert 303 == world(fleet(3)).get("/sign-in").status
    assert 'name="token"' in made.get("/sign-in").text


def test_links_of_other_sites() -> None:
    """Come without the cookie: the form is asked for again by this site itself, once."""
    made = closed()
    assert 'http-equiv="refresh"' in made.get("/sign-in", sec_fetch_site="cross-site").text
    assert 'http-equiv="refresh"' not in made.get("/sign-in", sec_fetch_site="same-origin").text


def test_sign_out() -> None:
    """The browser forgets it."""
    answer = closed().send("POST", "/sign-out")
    assert (303, "./sign-in") == (answer.status, answer["location"])
    assert 'palanca_session=""' in answer["set-cookie"]
    assert "Max-Age=0" in answer["set-cookie"]


def test_large_forms_and_odd_bytes() -> None:
    """Are refused, or no token."""
    made = closed()
    assert 413 == made.send("POST", "/sign-in", body=b"token=" + b"x" * 33_000).status
    assert 401 == made.send("POST", "/sign-in", body=b"\xff\xfe&&&=").status
    assert 422 == made.send("POST", "/sign-in", body=b"token=x&to=" + b"x" * 20_000).status


def test_attempts_are_audited() -> None:
    """With the address, and without the token."""
    made = closed()
    signed(made, "wrong")
    signed(made)
    assert [("unknown", "/sign-in", 401), ("ana", "/sign-in", 303)] == [
        (one.caller, one.path, one.status) for one in made.audited
    ]


def test_files_of_the_pages_are_open() -> None:
    """The form needs its style before anybody is known."""
    for name in ("style.css", "page.js", "icon.svg"):
        assert 200 == closed().get(f"/static/{name}").status
    assert 404 == closed().get("/static/../pyproject.toml").status
    assert 404 == closed().get("/static/other.css").status
