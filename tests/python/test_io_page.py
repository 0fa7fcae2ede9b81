"""The page of `pagelens io explain`."""

import dataclasses

from test_io_model import MACHINE, recording_of, transfer

from pagelens.io import explain_recording, render_page


def page_of(command: list[str], conclusion: str = "") -> str:
    waiting = [
        transfer("write", 4096 * n, process=n, thread=n, start_ns=1000 * n, wall_ns=4000) for n in range(2)
    ]
    recording = recording_of(waiting)
    found = explain_recording(recording, MACHINE)
    facts = dataclasses.replace(found.facts, command=command)
    return render_page(dataclasses.replace(found, facts=facts), recording, [conclusion])


def test_the_page_names_who_waits_for_whom() -> None:
    _, _, table = page_of(["app"]).partition("Who waits for whom")
    assert '<td class="text">1</td><td class="text">0</td><td>1</td>\n<td>3 us</td>' in table


def test_commands_in_sentences_are_code_and_nothing_else_is_html() -> None:
    page = page_of(["app"], "Measure again (`pagelens measure io <DIR>`), or <b>doubt</b> it.")
    assert "(<code>pagelens measure io &lt;DIR&gt;</code>), or &lt;b&gt;doubt&lt;/b&gt; it." in page


def test_a_long_command_is_not_the_heading() -> None:
    query = "create table t(a, b); " * 10
    page = page_of(["sqlite3", "db", query])
    heading, _, _ = page.partition("</h1>")
    assert query not in heading
    assert f"<pre>sqlite3 db {query}</pre>" in page
    assert "<pre>" not in page_of(["app"])
