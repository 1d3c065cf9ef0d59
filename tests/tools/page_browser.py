# SPDX-License-Identifier: MIT
"""page_browser.py - what the tests of pages share: a browser without a screen or a network, pages in it, and what they show."""
import base64
import collections
import json
import os
import random
import re
import subprocess
import sys
import time
import zlib
from shutil import which

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

import tap
from trace_file import ARENA, HOST, KINDS, PRIVATE, Trace

PATIENCE = 120  # seconds until something that comes has to be there
BUILD = os.path.abspath(sys.argv[1])
WEIR = os.path.join(BUILD, "tools", "weir")
SOURCE = os.path.abspath(os.environ.get("top_srcdir", "."))


numbers = iter(range(1 << 30))


def weir(*arguments, status=0, **variables):
    """Runs the command, which is to end with that status, or with any; what it prints on its outputs."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
    done = subprocess.run([WEIR, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False,
                          env=dict(environment, WEIR_GPU="sim", XDG_CACHE_HOME=tap.FOLDER.name, HOME=tap.FOLDER.name, **variables))
    assert status in (done.returncode, None), (done.returncode, done.stderr)
    return done.stdout.decode(), done.stderr.decode(errors="replace")


def path(trace):
    """The trace as a file."""
    return trace.write(os.path.join(tap.FOLDER.name, "%d.weir" % next(numbers)))


def random_trace(seed):
    """A trace of random calls of some threads, in pools of each kind, of which some are lost, some come twice, and some free what nobody has."""
    draw = random.Random(seed)
    trace, live, cached = Trace(), {}, {}
    for pool, flags in enumerate((0, ARENA, HOST, PRIVATE), 1):
        trace.pool(pool, "pool %d" % pool, flags=flags, device=pool % 2)
        trace.tag(pool, "tag %d" % pool)
        trace.name(pool, "mark %d" % pool)
    for stack in range(1, 5):
        trace.line(stack, stack, "function %d" % stack, "file.py")
        trace.stack(stack, [stack, 1])
    for _ in range(draw.choice((0, 1, 5, 60, 600))):
        trace.time += draw.choice((0, 0, 10, 100000))
        kind = draw.choice(("malloc", "malloc", "malloc", "free", "free", "keep", "serve", "return", "other"))
        place = {"thread": draw.randrange(100, 104), "lost": draw.random() < seed % 3 * 0.05}
        address = 0x1000 * draw.randrange(1, 120)
        size = draw.choice((draw.randrange(1, 4096), draw.randrange(1, 1 << draw.randrange(1, 34))))
        new = {"pool": draw.randrange(1, 5), "stream": draw.randrange(3), "size": size, "given": size + draw.choice((0, -size % 512, 9000)), "tag": draw.randrange(5)}
        old = draw.choice(sorted(live)) if live and draw.random() < 0.95 else address
        if kind == "malloc":
            trace.event(draw.choice(("malloc", "malloc", "live")), address=address, stack=draw.randrange(5), **new, **place)
            live[address] = new
        elif kind in ("free", "keep"):
            block = live.pop(old, new)
            trace.event(kind, address=old, **block, **place)
            if kind == "keep":
                cached[old] = block
        elif kind in ("serve", "return") and cached:
            old = draw.choice(sorted(cached))
            block = cached.pop(old)
            trace.event(kind, address=old, **dict(block, size=block["size"] if kind == "serve" else 0), **place)
            if kind == "serve":
                live[old] = block
        elif kind == "other":
            other = draw.choice(("map", "unmap", "trim", "figures", "settings", "wait", "rung", "out of memory", "mark", "asked", "synchronise", "held", "sleep", "wake"))
            trace.event(other, stream=1, pool=draw.randrange(5), a=draw.randrange(1 << 22) if other not in ("mark", "rung") else draw.randrange(5),
                        b=draw.randrange(1 << 22), **place)
    if not trace.threads:
        trace.event("mark", a=1)
    return trace


def hostile_trace(seed):
    """A trace of events whose figures, ids and places are any."""
    draw = random.Random(seed)
    trace = Trace()
    for pool in range(1, 4):
        trace.pool(pool, "pool %d" % pool, flags=draw.randrange(8), device=draw.randrange(1 << 64))
        trace.tag(pool, "tag %d" % pool)

    def figure():
        return draw.choice((0, 1, draw.randrange(1 << 12), draw.randrange(1 << 40), draw.randrange(1 << 64), (1 << 64) - 1, 1 << 63, 1 << 53))

    for _ in range(draw.choice((3, 30, 300))):
        size = figure()
        trace.event(draw.choice(sorted(KINDS)), thread=draw.randrange(1, 5), stream=figure(), pool=draw.randrange(5), tag=draw.randrange(5),
                    address=draw.choice((draw.randrange(8) << 12, figure())), size=size, given=max(size, figure()), stack=draw.randrange(3), a=figure(),
                    b=figure(), time=trace.time + draw.choice((0, 1000, draw.randrange(1 << 34))))
    return trace


def shipped(name):
    """A trace that lies in the source."""
    return os.path.join(SOURCE, name)


class Page:
    """A page in the browser."""

    driver = None

    def __init__(self, file, address=""):
        self.file = file
        if not Page.driver:
            Page.driver = self.begin()
        # Another page first: only a part of the address that differs would load nothing.
        self.driver.get("about:blank")
        self.media()
        self.driver.get("file://%s%s" % (file, address))
        self.wait("document.body && document.body.dataset.ready === 'yes' || document.body.dataset.check === 'failed'")

    @staticmethod
    def begin():
        """The browser: one for all facts."""
        options = Options()
        options.binary_location = which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1100", "--hide-scrollbars",
                         "--force-device-scale-factor=1", "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + os.path.join(tap.FOLDER.name, "browser")):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(which("chromedriver")))
        driver.set_page_load_timeout(PATIENCE)
        driver.set_script_timeout(PATIENCE)
        return driver

    @classmethod
    def end(cls):
        """Ends the browser."""
        if cls.driver:
            cls.driver.quit()

    def media(self, **features):
        """What the user prefers, as prefers_color_scheme="dark"."""
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})

    def run(self, script, *arguments):
        """What the script returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition):
        """Until the expression holds."""
        end = time.monotonic() + PATIENCE
        while not self.run("return " + condition):
            assert time.monotonic() < end, "it never came: " + condition
            time.sleep(0.01)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def keys(self, *keys):
        """To whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def address(self):
        """What the page's address has of the view, once it has been written."""
        self.wait("addressTimer === 0")
        return self.run("return location.hash")

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def data(self, selector):
        """What the page says to programs of an element."""
        return self.run("return {...document.querySelector(arguments[0]).dataset}", selector)

    def complaints(self):
        """What the browser's console has, violations of the policy of content among it, but for its advice to a test that reads what was drawn."""
        return [entry["message"] for entry in self.driver.get_log("browser") if "willReadFrequently" not in entry["message"]]

    def check(self):
        """That the page found its own sums to be the command's, and the browser nothing to complain of."""
        said = self.run("return [document.body.dataset.check, document.getElementById('check').textContent, document.getElementById('check').hidden]")
        assert said[0] == "equal" and said[2], said
        complaints = self.complaints()
        assert complaints == [], complaints

    def moment(self):
        """The figures of the cursor's moment."""
        return {key: int(float(value)) for key, value in self.data("#moment").items()}

    def holders(self, key):
        """Who has memory, by the grouping of that key: (bytes, blocks, given, oldest) of each row, in the order of the page."""
        self.run("document.activeElement.blur()")
        self.find("body").send_keys(key)
        while self.run("return [...document.querySelectorAll('#holders > button')].length"):
            self.find("#holders > button").click()
        rows = self.run("return [...document.querySelectorAll('#holders tr[data-key]')].map(row => ({...row.dataset}))")
        return [tuple(int(float(row[name])) for name in ("bytes", "blocks", "given", "oldest")) for row in rows]

    def colours(self, selector):
        """How many dots of the canvas have each colour, as #rrggbb; those that nothing was drawn on are not there."""
        counts = self.run("""
            const canvas = document.querySelector(arguments[0]), data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, counts = {};
            for (let i = 0; i < data.length; i += 4)
                if (data[i + 3] === 255) {
                    const colour = '#' + [data[i], data[i + 1], data[i + 2]].map(part => part.toString(16).padStart(2, '0')).join('');
                    counts[colour] = (counts[colour] || 0) + 1;
                }
            return counts;""", selector)
        return collections.Counter(counts)

    def legend(self, lane):
        """The colour that most of each mark of the lane's legend has."""
        return self.run("""
            return [...document.querySelectorAll(`.lane.${arguments[0]} .legend canvas`)].map(canvas => {
                const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, counts = {};
                for (let i = 0; i < data.length; i += 4) {
                    const colour = '#' + [data[i], data[i + 1], data[i + 2]].map(part => part.toString(16).padStart(2, '0')).join('');
                    counts[colour] = (counts[colour] || 0) + 1;
                }
                return Object.entries(counts).sort((a, b) => b[1] - a[1])[0][0];
            })""", lane)

    def table(self, lane):
        """The rows of the lane's table, each a list of texts, the headings first."""
        self.run("document.querySelector(`.lane.${arguments[0]} .twin`).open = true", lane)
        self.wait("document.querySelector('.lane.%s .twin table')" % lane)
        return self.run("return [...document.querySelectorAll(`.lane.${arguments[0]} .twin tr`)].map(row => [...row.cells].map(cell => cell.textContent))", lane)


def make(*arguments, name=None):
    """A page of these; its file."""
    file = os.path.join(tap.FOLDER.name, name or "page-%d.html" % next(numbers))
    weir("trace", "page", "-o", file, *arguments)
    return file


def page(*traces, address=""):
    """A page of these traces in the browser, once it has checked itself."""
    opened = Page(make(*[trace if isinstance(trace, str) else path(trace) for trace in traces]), address)
    opened.check()
    return opened


def document(view, file, *options):
    """What the command's document says of the file."""
    return json.loads(weir("trace", view, "--json", "--limit=1000000000", *options, file)[0])["files"][0]


def changed(file, change):
    """A copy of the page with the texts of its document changed."""
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    packed = re.search(r'data-coding="(\w+)">([A-Za-z0-9+/=]*)<', text)
    data = base64.b64decode(packed.group(2))
    data = zlib.decompress(data) if packed.group(1) == "deflate" else data
    length = int.from_bytes(data[:8], "little")
    wanted = json.loads(data[8 : 8 + length])
    change(wanted)
    new = json.dumps(wanted).encode()
    data = len(new).to_bytes(8, "little") + new + data[8 + length :]
    data = zlib.compress(data) if packed.group(1) == "deflate" else data
    copy = file + ".changed.html"
    with open(copy, "w", encoding="utf-8") as opened:
        opened.write(text.replace(packed.group(2), base64.b64encode(data).decode()))
    return copy
