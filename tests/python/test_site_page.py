"""The fleet's page in a real browser, from a server and from a folder."""

import json
import re
import shutil

import anyio
import pytest
from fleet_history import NOW, check, fleet

from pagelens.errors import Failure
from pagelens.site.collect import collect
from pagelens.site.decision import Rule
from pagelens.site.history import Action, open_history, record_action
from pagelens.site.page import export_page, make_app, server
from pagelens.site.page.data import fleet_data, script
from pagelens.site.status import fleet_status

needs_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
NODES = 300


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A history, its page in a folder, and a slow node's name."""
    folder = tmp_path_factory.mktemp("site")
    with open_history(folder / "h", write=True) as history:
        collect(history, fleet(NODES, 12, bad=0.15), Rule(), NOW)
        collect(history, [check("alone", mode="other")], Rule(), NOW)
        slow = fleet_status(history, Rule(), "slow", NOW).nodes[0].node
        note = Action(NOW, slow, "clean", "<b>slow</b> & low", {}, "done")
        record_action(history, note, forget=False)
        export_page(history, Rule(), "Our nodes", folder / "page", now=NOW)
    return folder, slow


def data(text: str) -> dict:
    return json.loads(re.fullmatch(r"pagelens\.\w+\((.*)\);\n", text, re.S)[1])


def ask(app, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Status, headers and text of one request, without a server."""
    parts: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict) -> None:
        parts.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
    }
    scope |= {
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "scheme": "http",
        "root_path": "",
    }
    anyio.run(app, scope | {"server": ("site", 80)}, receive, send)
    headers = {name.decode(): value.decode() for name, value in parts[0]["headers"]}
    return parts[0]["status"], headers, b"".join(part.get("body", b"") for part in parts[1:]).decode()


def test_the_page_of_a_server_and_that_of_a_folder_say_the_same(site):
    folder, slow = site
    page = folder / "page"
    app = make_app(folder / "h", Rule(), "Our nodes")
    _, headers, index = ask(app, "/")
    assert index == (page / "index.html").read_text()
    assert "default-src 'self'" in headers["content-security-policy"]
    served, exported = data(ask(app, "/fleet.js")[2]), data((page / "fleet.js").read_text())
    assert served["nodes"]["name"] == exported["nodes"]["name"]
    node = data(ask(app, f"/node/{slow}.js")[2])
    assert node["checks"] == data((page / "node" / f"{slow}.js").read_text())["checks"]
    assert ask(app, "/node/nobody.js")[0] == ask(app, "/node/../../etc/passwd.js")[0] == 404
    assert ask(app, "/", "POST")[0] == 405


def test_the_server_shows_what_is_collected_later_without_keeping_a_visit_waiting(site, monkeypatch):
    folder, _ = site
    fleet_of = server._Fleet(folder / "h", Rule(), "x")
    first = fleet_of.script()
    assert fleet_of.script() is first
    monkeypatch.setattr(server, "FRESH_S", -1.0)
    assert fleet_of.script() is first  # old; a thread reads it again
    with fleet_of._lock:  # once that thread is done
        assert fleet_of._text is not first


def test_distributions_of_a_long_history_are_of_one_in_n_checks(site, monkeypatch):
    folder, _ = site
    with open_history(folder / "h") as history:
        every = fleet_data(history, Rule(), "x", NOW)[1]["distributions"]
        monkeypatch.setattr("pagelens.site.page.data.MOST_CHECKS", NODES * 4)
        drawn = fleet_data(history, Rule(), "x", NOW)[1]["distributions"]
    for one, other in zip(every, drawn, strict=True):
        count = sum(one["by_share"])
        assert sum(other["by_share"]) % 4 == 0
        assert abs(sum(other["by_share"]) - count) <= 0.1 * count + 4
        for q5, drawn_q5 in zip(one["days"]["q0.5"], other["days"]["q0.5"], strict=False):
            assert drawn_q5 == pytest.approx(q5, rel=0.05)


def test_nodes_that_are_collected_by_turns_are_all_drawn(tmp_path, monkeypatch):
    """Kinds that alternate in the history would fall on even and odd numbers."""
    modes, hours = ("cache", "flat"), range(30)
    checks = [
        check(f"{mode}{node}", uptime=3600.0 * hour, job=f"{hour}", mode=mode)
        for hour in hours for node in range(20) for mode in modes
    ]  # fmt: skip
    with open_history(tmp_path / "h", write=True) as history:
        collect(history, checks, Rule(), NOW)
        monkeypatch.setattr("pagelens.site.page.data.MOST_CHECKS", len(checks) - 1)
        drawn = fleet_data(history, Rule(), "x", NOW)[1]["distributions"]
        (stated,) = history.execute("SELECT count(*) FROM checks WHERE counted = 1").fetchone()
    counts = [sum(one["by_share"]) for one in drawn]
    assert sum(counts) == pytest.approx(stated, rel=0.1)
    assert counts[0] == pytest.approx(counts[1], rel=0.2)


def test_a_reason_cannot_end_the_script_that_it_is_in():
    assert "</script" not in script("node", {"reason": "</script><script>alert(1)"})


def test_a_history_that_is_not_there_is_said_on_the_page(tmp_path):
    from starlette.routing import Route

    app = make_app(tmp_path / "none", Rule(), "x")
    get = next(
        route.endpoint for route in app.routes if isinstance(route, Route) and route.path == "/fleet.js"
    )
    assert b"site collect makes it" in get(None).body


def test_without_the_extra_a_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "starlette.applications", None)
    with pytest.raises(Failure, match=r"pagelens\[site\]"):
        make_app(tmp_path, Rule(), "x")


@needs_browser
def test_nodes_are_found_by_keyboard_filter_and_link(site):
    """One browser, from a folder: no server, no network."""
    from playwright.sync_api import sync_playwright

    folder, slow = site
    url = (folder / "page" / "index.html").as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 360, "height": 740})
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(url)
        assert f"{NODES + 1} nodes" in page.inner_text("#summary")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        # The keyboard alone: say a node, open it.
        page.focus("#grid")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        said = page.inner_text("#said")
        page.keyboard.press("Enter")
        page.wait_for_selector("#node:not([hidden])")
        name = page.inner_text("#node-h")
        assert said.startswith(f"{name}: ")
        assert page.evaluate("document.activeElement.id") == "node"
        # Filters are in the URL, and a link brings them back.
        page.select_option("select[name=state]", "slow")
        page.fill("input[name=name]", slow)
        page.wait_for_url(lambda url: f"state=slow&name={slow}" in url.replace(f"node={name}&", ""))
        assert page.locator("#list tbody tr").count() == 1
        page.goto(f"{url}?state=slow&node={slow}")
        page.wait_for_selector("#node:not([hidden])")
        assert "It is slow" in page.inner_text("#node")
        assert "<b>slow</b> & low" in page.inner_text("#node .words")
        rows = page.locator("#list tbody tr").all_inner_texts()
        assert rows
        assert all("slow" in row for row in rows)
        browser.close()
    assert wrong == []


@needs_browser
def test_screen_readers_and_weak_eyes_are_served_in_light_and_dark(site):
    """Checked by the rules of axe-core: names, roles, order of headings, contrast."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    folder, slow = site
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme)
            page.goto(f"{(folder / 'page' / 'index.html').as_uri()}?node={slow}")
            page.wait_for_selector("#node:not([hidden])")
            assert Axe().run(page).response["violations"] == []
        browser.close()
