"""The frame of both simulators' pages. Everything that came from outside passes through `text`."""

from html import escape
from pathlib import Path

from examples.simulators.wire import Answer

STYLESHEET = Path(__file__).parent / "simulators.css"


def text(value: object) -> str:
    return escape("" if value is None else str(value), quote=True)


def stylesheet() -> Answer:
    return Answer(200, STYLESHEET.read_bytes(), "text/css; charset=utf-8", {"Cache-Control": "no-cache"})


def page(*, title: str, lead: str, body: str) -> str:
    """`body` is markup and already escaped."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<link rel="stylesheet" href="/simulators.css">
</head>
<body>
<header class="bar"><a class="brand" href="/">{text(title)}</a><span>a simulator, nothing here is real</span></header>
<main>
<h1>{text(title)}</h1>
<p class="lead">{text(lead)} <a href="/">Refresh</a></p>
{body}
</main>
</body>
</html>
"""


def table(*, caption: str, heads: list[str], rows: list[list[str]], empty: str) -> str:
    """Cells are markup and already escaped; the first of a row is its header."""
    if not rows:
        return f'<section><h2>{text(caption)}</h2><p class="quiet">{text(empty)}</p></section>'
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in heads)
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return (
        f'<section><h2>{text(caption)}</h2><div class="sheet"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div></section>"
    )
