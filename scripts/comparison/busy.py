"""Another process that takes processor time while something is measured."""

import os
import time

PERIOD_S = 0.02


def be_busy(share):
    """Uses a processor for this share of the time, until its parent ends."""
    parent = os.getppid()
    while os.getppid() == parent:
        start = time.monotonic()
        while time.monotonic() - start < share * PERIOD_S:
            pass
        time.sleep((1 - share) * PERIOD_S)
