"""Routes: the webhook endpoint, and the page of what came."""

import os

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from examples.simulators.page import page, stylesheet, table, text
from examples.simulators.post.kept import Kept
from examples.simulators.wire import Answer, Incoming, Reply, html_answer, json_answer, problem


class Post:
    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def __call__(self, request: Incoming) -> Reply:
        match request.method, request.path:
            case "POST", "/hook":
                return self._hook(request)
            case "GET" | "HEAD", "/":
                return html_answer(self._page())
            case "GET" | "HEAD", "/simulators.css":
                return stylesheet()
            case "GET" | "HEAD", "/healthz":
                return json_answer(200, {"status": "ok"})
            case "GET", "/letters.json":
                return json_answer(200, {"letters": self._kept.letters()})
            case "GET", "/hooks.json":
                return json_answer(200, {"hooks": self._kept.hooks()})
        return problem(404, "no_such_endpoint", f"{request.method} {request.path} is not offered here.")

    def _hook(self, request: Incoming) -> Answer:
        body = request.read_body().decode("utf-8", "replace")
        self._kept.hook(
            path=request.path,
            webhook_id=request.header("webhook-id") or "",
            signature=_signature(request, body),
            body=body,
        )
        return Answer(204)

    def _page(self) -> str:
        letters, hooks = self._kept.letters(), self._kept.hooks()
        body = _letters(letters) + _hooks(hooks)
        lead = f"{len(letters)} letters and {len(hooks)} webhooks, newest first."
        return page(title="Post office", lead=lead, body=body)


def _signature(request: Incoming, body: str) -> str:
    secret = os.environ.get("COUNTERFOIL_WEBHOOK_SAMPLE", "")
    if not secret:
        return "not checked"
    try:
        Webhook(secret).verify(body, {k: str(v) for k, v in request.headers.items()}, json_parse=False)
    except (WebhookVerificationError, ValueError) as wrong:  # ValueError: what is no base64, or no pair
        return f"wrong: {wrong}"
    return "good"


def _letters(letters: list[dict[str, str]]) -> str:
    rows = [
        [
            _time(one["at"]),
            text(one["recipient"]),
            f"{text(one['subject'])}<br><small class='quiet'>{text(one['text'])}</small>",
        ]
        for one in letters
    ]
    return table(
        caption="Letters", heads=["Came", "To", "Letter"], rows=rows, empty="No letter has come yet."
    )


def _hooks(hooks: list[dict[str, str]]) -> str:
    rows = [
        [
            _time(one["at"]),
            f"<code>{text(one['webhook_id'])}</code>",
            text(one["signature"]),
            f"<code>{text(one['body'])}</code>",
        ]
        for one in hooks
    ]
    heads = ["Came", "Id", "Signature", "Body"]
    return table(caption="Webhooks", heads=heads, rows=rows, empty="No webhook has come yet.")


def _time(at: str) -> str:
    return f'<time class="nowrap" datetime="{text(at)}">{text(at[11:19])}</time>'
