"""A headless Chromium, spoken to over a pipe in the language of its developer tools."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A page that is not loaded by then never will be.
LIMIT_S = 60


def program():
    """The browser's program; None where there is none."""
    return next((found for found in map(shutil.which, PROGRAMS) if found), None)


def give_up(*_):
    raise RuntimeError(f"the browser took more than {LIMIT_S} s for a page")


class Browser:
    """A browser with one page. Whatever the page says or asks for is kept."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="check-report-")
        to_browser, own_write = os.pipe()
        own_read, from_browser = os.pipe()

        def descriptors():
            os.dup2(to_browser, 13)
            os.dup2(from_browser, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        command = [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                   f"--user-data-dir={self.folder}", "--remote-debugging-pipe", "about:blank"]
        self.child = subprocess.Popen(command, preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.writer, self.reader = os.fdopen(own_write, "wb", 0), os.fdopen(own_read, "rb")
        self.number, self.events, self.session = 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.writer.close()
        self.reader.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        message = bytearray()
        while (byte := self.reader.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser has ended")
            message += byte
        answer = json.loads(message)
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, path, width, height, scheme):
        """Shows a file. Returns what the page said and what it asked for beside itself."""
        url = "file://" + os.path.abspath(path)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media="screen", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(LIMIT_S)
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.receive()
        # A question is answered after what came before it.
        self.value("document.readyState")
        signal.alarm(0)
        said = [event for event in self.events
                if event["method"] in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")]
        asked = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return said, [other for other in asked if other != url and not other.startswith("data:")]

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self, path):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def paper(self, path):
        self.call("Emulation.setEmulatedMedia", media="print", features=[])
        data = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
