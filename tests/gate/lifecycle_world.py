"""The world of the lifecycle test: a clock it owns, and receivers that count and misbehave."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

from coilclaw.packets.errors import TransportError
from coilclaw.packets.http import HttpResponse

BEHAVIOURS = ("ok", "busy", "refuses", "unsure", "silent", "unreachable", "dies before", "dies after")


class Crash(BaseException):
    """The process is gone at this very point."""


class Clock:
    """Moves only when told to, plus a millisecond a look."""

    def __init__(self):
        self.now = self.latest = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(milliseconds=1)
        self.latest = max(self.latest, self.now)
        return self.now


class World:
    """The receivers, as a way out: it counts effects, and looks at each with suspicion before it lets it happen."""

    def __init__(self):
        self.effects = []
        self.behaviours = defaultdict(list)
        self.suspect = lambda key, body: None

    async def send(self, request):
        target = request.url.split("/")[3]
        if request.method == "GET":
            known = request.url.rpartition("/")[2] in self.keys()
            return self._answer(request, (200 if known else 404) if target == "lookup" else 405)
        key = dict(request.headers)["Idempotency-Key"]
        self.suspect(key, request.body)
        waiting = self.behaviours[key]
        how = waiting.pop(0) if waiting else "ok"
        if how == "busy":
            return self._answer(request, 429)
        if how == "refuses":
            return self._answer(request, 400)
        if how == "unreachable":
            raise TransportError("nobody there", sent=False)
        if how == "dies before":
            raise Crash
        if not (target == "deduplicates" and key in self.keys()):
            self.effects.append((key, request.body))
        if how == "dies after":
            raise Crash
        if how == "silent":
            raise TransportError("no answer", sent=True, timeout=True)
        return self._answer(request, 500 if how == "unsure" else 200)

    def keys(self):
        return [key for key, _ in self.effects]

    def _answer(self, request, status):
        return HttpResponse(status=status, headers=(), body=b"", url=request.url)
