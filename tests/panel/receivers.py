"""Receivers that try one's patience: one answers when it is let go, one hangs up after it took what was sent."""

import threading

from coilclaw.sandbox.fake_receiver import Receiver


class Moody(Receiver):
    """`{"mood": "late"}` is answered once `let_go` is set, `{"mood": "torn"}` never: the line breaks."""

    def __init__(self, file, **options):
        super().__init__(file, **options)
        self.let_go = threading.Event()
        self.reached = threading.Event()

    def take(self, key, body):
        status = super().take(key, body)
        self.reached.set()
        if b'"late"' in body:
            self.let_go.wait(15)
        if b'"torn"' in body:
            raise ConnectionAbortedError("the line broke after it was taken")
        return status
