# SPDX-License-Identifier: MIT
"""page_browser_test.py - pages of traces, as a browser shows them: `page_browser.sh` has what it needs."""
import json
import os
import random
import re
import subprocess

import tap
from page_browser import BUILD, Page, Trace, changed, document, hostile_trace, make, page, path, random_trace, shipped, weir
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys
from tap import fact

GENERATION = shipped("examples/traces/generation.weir")
LORA = shipped("tests/tools/page_lora.weir")
GROUPINGS = (("1", "by_tag"), ("2", "by_stack"), ("3", "by_pool"), ("4", "by_stream"), ("5", "by_size"))
MIB = 1 << 20


def refused():
    """A trace of a program whose request is refused at a cap, with stacks."""
    file = os.path.join(tap.FOLDER.name, "refused.weir")
    if not os.path.exists(file):
        policy = tap.write("refused.yaml", "weir: 1\npools: { main: { small_below: 0, max_size: 512MiB } }\n")
        weir("record", "--stacks", "-o", file, "--", os.path.join(BUILD, "tests", "tools", "refused"), "192", "8", "24", "160", "20",
             WEIR_POLICY=policy, WEIR_SIM="memory=1GiB")
    return file


def agrees(opened, file, event):
    """That the page has the same figures and the same words for its moment as the command has for that behind the event."""
    wanted = document("live", file, "--at=#%d" % event)
    moment = opened.moment()
    assert moment["event"] == event, (moment, event)
    assert (moment["live"], moment["blocks"], moment["held"]) == (wanted["live"], wanted["live_blocks"], wanted["held"]), (moment, event)
    for key, name in GROUPINGS:
        rows = [tuple(row[figure] for figure in ("bytes", "blocks", "given", "oldest")) for row in wanted[name]]
        assert opened.holders(key) == rows, (event, name)


def text_agrees(opened, file, event):
    """That "copy as text" has what the command prints, letter by letter."""
    opened.run("document.getElementById('text-box').open = true")
    opened.wait("document.getElementById('text').textContent !== ''")
    assert opened.text("#text") == weir("trace", "live", "--at=#%d" % event, file)[0]


def figures_agree(file, moments):
    """That they do at the peak, and at moments of all sorts."""
    opened = page(file)
    opened.find("body").send_keys("p")
    peak = document("peak", file)
    assert opened.moment()["live"] == peak["live"] and opened.moment()["time"] == peak["time"]
    agrees(opened, file, opened.moment()["event"])
    rows = opened.run("return unpack(document.getElementById('data')).then(d => Array.from(readTraces(d.document, d.bytes)[0].rows.event))")
    draw = random.Random(3)
    for row in [0, len(rows) - 1, *(draw.randrange(len(rows)) for _ in range(moments))]:
        opened.run("location.hash = '#by=tag&at=0,%d,%d'" % (row, rows[row]))
        opened.wait("document.getElementById('moment').dataset.event === '%d'" % rows[row])
        agrees(opened, file, rows[row])
        opened.run("document.getElementById('text').textContent = ''")
        opened.run("location.hash = '#by=size&at=0,%d,%d'" % (row, rows[row]))
        text_agrees(opened, file, rows[row])
    opened.check()


@fact
def figures_of_a_shipped_trace_are_the_commands():
    figures_agree(GENERATION, 6)


@fact
def figures_of_a_training_are_the_commands():
    figures_agree(LORA, 6)


@fact
def figures_of_an_out_of_memory_are_the_commands():
    figures_agree(refused(), 6)


@fact
def answer_to_a_refusal_comes_first_and_is_that_of_why():
    file = refused()
    opened = page(file)
    wanted = document("why", file)
    data = opened.data("#why")
    assert int(data["asked"]) == wanted["refusal"]["asked"] == 160 * MIB
    assert data["changes"] == "; ".join(change["change"] for change in wanted["changes"])
    for line in wanted["refusal"]["conclusions"]:
        assert line in opened.text("#why")
    assert opened.find("#side section:not([hidden])").get_attribute("id") == "why"
    assert opened.text("#moment-title").startswith("Behind the last refusal")
    agrees(opened, file, opened.moment()["event"])


@fact
def a_refusal_of_host_memory_is_not_said_to_be_a_devices():
    file = os.path.join(tap.FOLDER.name, "host.weir")
    subprocess.run([os.path.join(BUILD, "tests", "tools", "unaware"), "host", file], check=True)
    assert "the host had no more memory" in page(file).text("#why")


@fact
def sums_of_200_random_traces_are_the_commands():
    for first in range(0, 200, 20):
        page(*[random_trace(seed) for seed in range(first, first + 20)])


@fact
def moments_of_random_traces_are_the_commands():
    for seed in range(300, 306):
        file = path(random_trace(seed))
        opened = page(file)
        events = opened.run("return unpack(document.getElementById('data')).then(d => Array.from(readTraces(d.document, d.bytes)[0].rows.event))")
        for row in range(0, len(events), 1 + len(events) // 3):
            opened.run("location.hash = '#at=0,%d,%d'" % (row, events[row]))
            opened.wait("document.getElementById('moment').dataset.event === '%d'" % events[row])
            agrees(opened, file, events[row])
            text_agrees(opened, file, events[row])


@fact
def page_says_so_where_its_sums_are_others():
    def change(wanted):
        wanted["files"][0]["totals"]["pools"][1]["held_peak"] += 1

    opened = Page(changed(make(GENERATION), change))
    assert opened.run("return document.body.dataset.check") == "differ"
    assert opened.find("#check").is_displayed() and "held_peak" in opened.text("#check") and opened.find("#check").get_attribute("role") == "alert"


@fact
def figures_beyond_what_it_can_count_are_said():
    trace = Trace()
    trace.pool(1, "main")
    trace.event("malloc", stream=1, pool=1, address=0x1000, size=1 << 60, given=1 << 60)
    opened = Page(make(path(trace)))
    assert opened.run("return document.body.dataset.check") == "inexact" and "8 PiB" in opened.text("#check")
    assert opened.complaints() == []


@fact
def page_that_is_cut_says_that_it_cannot_be_shown():
    file = make(GENERATION)
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    place = text.index('data-coding="') + 4000
    with open(file + ".cut.html", "w", encoding="utf-8") as cut:
        cut.write(text[:place] + text[place + 400 :])
    opened = Page(file + ".cut.html")
    assert opened.run("return document.body.dataset.check") == "failed" and "cannot be shown" in opened.text("#check")
    opened.complaints()


HOSTILE = ("</script><script>document.body.dataset.hacked=1</script>", '<img src=x onerror="document.body.dataset.hacked=1">', "\"';--><!--", "a\x01\x1b[31m\nb\x7f",
           "\u202egnp.exe\u2066", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🧠", "@@DATA@@", "x" * 3000, "", "&amp;&#60;b&#62;")


@fact
def hostile_names_are_text():
    trace = Trace(program="<script>alert(1)</script>", rank="<b>7")
    for number, name in enumerate(HOSTILE, 1):
        trace.pool(number, name)
        trace.tag(number, name)
        trace.name(number, name)
        trace.line(number, 7, name, name)
        trace.stack(number, [number])
        trace.event("mark", a=number)
        trace.event("stream open", stream=number, pool=number, a=number)
        trace.event("malloc", stream=number, pool=number, address=0x1000 * number, size=4000, given=4096, tag=number, stack=number)
    trace.event("out of memory", stream=1, pool=2, a=1 << 30, b=1)
    file = os.path.join(tap.FOLDER.name, "<img src=x>'\".weir")
    trace.write(file)
    opened = page(file, path(random_trace(1)))
    for key, _ in GROUPINGS:
        assert opened.holders(key)
        opened.find("#holders button.name").click()
    opened.find("#search").send_keys('tag:"<img"')
    opened.wait("document.getElementById('search-said').textContent === '1 blocks'")
    for lane in ("memory", "steps", "map", "free", "compare"):
        assert opened.table(lane)
    opened.run("location.hash = '#pin=0,1&find=%3Cscript%3Ealert(1)%3C/script%3E&by=%3Cb%3E'")
    opened.wait("!document.getElementById('block').hidden")
    assert opened.run("return [document.body.dataset.hacked, document.scripts.length, document.querySelectorAll('img, iframe, b').length]") == [None, 2, 0]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", opened.run("return document.body.innerText + document.title"))
    assert "\\x1b[31m" in opened.run("return document.body.textContent")
    opened.check()


@fact
def hostile_figures_break_nothing():
    for seed in range(12):
        opened = Page(make(path(hostile_trace(seed))))
        assert opened.run("return document.body.dataset.check") in ("equal", "inexact"), (seed, opened.text("#check"))
        for key in "5px1wsWdox0":
            opened.find("body").send_keys(key)
        opened.wait("document.body.dataset.measured === 'yes'")
        for lane in ("memory", "steps", "map", "free"):
            opened.table(lane)
        assert opened.complaints() == [], seed


@fact
def hostile_address_and_hostile_tune_do_nothing():
    file = make(GENERATION)
    for address in ("#by=__proto__&view=1e999,NaN&at=9,9,9&pin=-1,7", "#at=0,-5,0&view=5,1", "#view=,&at=,&pin=,", "#at=1e300&axis=request", "#%ff%00"):
        opened = Page(file, address)
        opened.check()
        assert opened.moment()["live"] >= 0
    bad = tap.write("tune.json", json.dumps({"policy_in_force": "x", "for": "<b>", "pools": [{"pool": "<img src=x>", "front": [{"figures": {}}, {}]}]}))
    opened = Page(make("--tune=" + bad, GENERATION))
    opened.check()
    cut = tap.write("cut.json", '{"policy_in_force": 1, "front": [')
    Page(make("--tune=" + cut, GENERATION)).check()


@fact
def traces_with_nothing_in_them_have_a_page():
    only_marks, one_block, empty = Trace(), Trace(), Trace()
    only_marks.event("mark", a=0)
    one_block.pool(1, "main")
    one_block.event("malloc", stream=1, pool=1, address=0x1000, size=0, given=0)
    for trace in (only_marks, one_block, empty):
        opened = page(trace)
        for key in "wsad0pomx12345c/":
            opened.run("document.activeElement.blur()")
            opened.find("body").send_keys(key)
        opened.check()


@fact
def each_lane_has_the_colours_of_its_legend():
    opened = page(refused())
    for lane in ("memory", "steps", "free"):
        colours, legend = opened.colours(".lane.%s canvas.drawn" % lane), opened.legend(lane)
        assert legend and len(set(legend)) == len(legend), legend
        for colour in legend:
            assert colours[colour] > 10, (lane, colour, colours.most_common(9))
    colours = opened.colours(".lane.map canvas.drawn")
    for colour in opened.legend("memory"):
        assert colours[colour] > 100, (colour, colours.most_common(9))
    whole = sum(colours.values())
    assert whole > 0.3 * opened.run("const canvas = document.querySelector('.lane.map canvas.drawn'); return canvas.width * canvas.height")


@fact
def calls_that_waited_are_steps_and_rows_with_their_places():
    file = os.path.join(tap.FOLDER.name, "unaware.weir")
    subprocess.run([os.path.join(BUILD, "tests", "tools", "unaware"), "waits", file], check=True)
    opened = page(file)
    legend = dict(zip(opened.run("return STEPS.map(step => step.name)"), opened.run("return STEPS.map(step => step.colour)")))
    assert opened.colours(".lane.steps canvas.drawn")[legend["call that waited"]] > 100
    rows = opened.table("steps")[1:]
    assert rows[0][1:3] == ["30 ms", "1 MiB"] and rows[0][0].startswith("cudaHostAlloc at "), rows[0]
    assert sum(row[0].startswith("cudaFree at ") for row in rows) == 49 and len(rows) == 50
    wanted = {(wait["pool"], wait["call"]): (wait["count"], wait["ns"]) for wait in document("waits", file)["waits"] if wait["kind"] == "held"}
    spans = opened.run("return unpack(document.getElementById('data')).then(d => { "
                       "const trace = readTraces(d.document, d.bytes)[0]; return spansOf(trace).map((span, i) => [trace.pools[i].name, span.call]); })")
    # What such a program frees goes back at once: only CUDA's pool has free pages.
    free = opened.run("return unpack(document.getElementById('data')).then(d => { const trace = readTraces(d.document, d.bytes)[0]; addUp(trace); "
                      "layOut(trace); return Array.from(trace.rows.at, (_, row) => freeAt(trace, row).free); })")
    assert len(free) > 400 and max(free) < 2 * MIB, max(free)
    held = {name: (span["count"], span["ns"]) for name, span in spans if span["count"]}
    assert held == {pool: sums for (pool, _), sums in wanted.items()}, held
    opened.check()


@fact
def lanes_of_a_training_are_not_blank():
    opened = page(LORA)
    for lane, least in (("memory", 0.2), ("steps", 0.001), ("map", 0.3), ("free", 0.01)):
        colours = opened.colours(".lane.%s canvas.drawn" % lane)
        dots = opened.run("const canvas = document.querySelector(`.lane.${arguments[0]} canvas.drawn`); return canvas.width * canvas.height", lane)
        assert sum(colours.values()) > least * dots, (lane, sum(colours.values()), dots)


def contrast(one, other):
    """Of two colours, as WCAG 2 has it."""
    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


@fact
def texts_can_be_read_in_the_light_and_in_the_dark():
    opened = page(GENERATION)
    papers = {}
    for scheme in ("light", "dark"):
        opened.media(prefers_color_scheme=scheme)
        opened.wait("matchMedia('(prefers-color-scheme: %s)').matches" % scheme)
        colour = {name: opened.run("return getComputedStyle(document.documentElement).getPropertyValue('--' + arguments[0]).trim()", name)
                  for name in ("paper", "side", "warn", "ink", "faint", "alarm")}
        papers[scheme] = colour["paper"]
        for text, ground in (("ink", "paper"), ("ink", "side"), ("ink", "warn"), ("faint", "paper"), ("faint", "side"), ("alarm", "paper"), ("alarm", "side")):
            assert contrast(colour[text], colour[ground]) >= 4.5, (scheme, text, ground, contrast(colour[text], colour[ground]))
    assert papers["light"] != papers["dark"]
    opened.check()


@fact
def nothing_moves_for_those_who_ask_for_that():
    opened = page(GENERATION)
    opened.media(prefers_reduced_motion="reduce")
    assert opened.run("return getComputedStyle(document.querySelector('button')).transitionDuration") == "0s"
    opened.media(prefers_reduced_motion="no-preference")
    assert opened.run("return getComputedStyle(document.querySelector('button')).transitionDuration") != "0s"


@fact
def nothing_is_fetched():
    opened = page(GENERATION)
    assert opened.run("return performance.getEntriesByType('resource').length") == 0
    assert opened.run("return fetch('data:text/plain,x').then(() => 'fetched', () => 'refused')") == "refused"
    assert any("Content Security Policy" in text for text in opened.complaints())


@fact
def keyboard_alone_will_do():
    opened = page(refused())
    body = opened.find("body")
    body.send_keys("p")
    peak = opened.moment()
    body.send_keys("w")
    assert "view=" in opened.address()
    body.send_keys("d")
    moved = opened.address()
    body.send_keys("a")
    assert opened.address() != moved
    body.send_keys("0")
    assert "view=" not in opened.address()
    body.send_keys("m")
    assert opened.text("#moment-title").startswith("Mark asks")
    body.send_keys("o")
    assert opened.text("#moment-title").startswith("Behind a refusal")
    body.send_keys("p", Keys.ARROW_LEFT)
    assert opened.moment()["event"] < peak["event"] and opened.moment()["live"] < peak["live"]
    body.send_keys(Keys.ARROW_RIGHT)
    assert opened.moment() == peak
    body.send_keys("/")
    opened.keys("size>100M")
    opened.wait("document.getElementById('search-said').textContent === '1 blocks'")
    opened.keys(Keys.ESCAPE)
    assert opened.run("return [document.activeElement.tagName, document.getElementById('search').value]") == ["BODY", ""]
    # Tab leads to each lane.
    lanes = set()
    for _ in range(80):
        opened.keys(Keys.TAB)
        lanes.add(opened.run("return document.activeElement.dataset.lane"))
        if lanes >= {"memory", "steps", "map"}:
            break
    assert opened.run("return document.activeElement.dataset.lane") == "map", lanes
    opened.keys(Keys.ARROW_DOWN)
    first = opened.data("#block")["address"]
    opened.keys(Keys.ARROW_DOWN)
    assert opened.data("#block")["address"] > first
    opened.keys(Keys.ARROW_UP)
    assert opened.data("#block")["address"] == first
    opened.keys(Keys.ESCAPE)
    assert not opened.find("#block").is_displayed()
    opened.keys("5")
    assert opened.find("#grouping").get_attribute("value") == "size"
    opened.keys("x")
    assert "axis=" in opened.address() and opened.complaints() == []
    opened.keys("c")
    opened.wait("document.getElementById('text').textContent !== ''")
    assert opened.text("#text") == weir("trace", "live", "--at=#%d" % opened.moment()["event"], refused())[0]


@fact
def mouse_zooms_moves_and_pins():
    opened = page(refused())
    canvas = opened.find(".lane.map canvas.drawn")
    opened.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
    box = canvas.size
    ActionChains(opened.driver).move_to_element_with_offset(canvas, 0, -box["height"] // 4).click().perform()
    block = opened.data("#block")
    assert int(block["size"]) == 192 * MIB, block
    wanted = [event for event in document("events", refused())["events"] if event["kind"] == "malloc" and event["size"] == 192 * MIB][0]
    assert block["address"] == wanted["address"] and "weights" in opened.text("#block") and "thread" in opened.text("#block")
    for frame in wanted["stack"]:
        assert frame in opened.text("#block")
    opened.run("arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -100, clientX: 400, bubbles: true, cancelable: true}))", canvas)
    zoomed = opened.address()
    assert "view=" in zoomed
    ActionChains(opened.driver).move_to_element(canvas).click_and_hold().move_by_offset(-60, 0).move_by_offset(-60, 0).release().perform()
    assert opened.address() != zoomed
    opened.check()


@fact
def addresses_zoom_with_shift_and_come_back_with_the_address():
    file = make(refused())
    opened = Page(file)
    canvas = opened.find(".lane.map canvas.drawn")
    others = opened.legend("memory")[0]
    assert opened.colours(".lane.map canvas.drawn")[others] > 100
    for _ in range(6):
        opened.run("const box = arguments[0].getBoundingClientRect(); arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -100, shiftKey: true, "
                   "clientX: box.left + 400, clientY: box.top + 10, bubbles: true, cancelable: true}))", canvas)
    # Only the block of 192 MiB is seen there, all along its life.
    assert "rows=" in opened.address() and opened.colours(".lane.map canvas.drawn")[others] == 0
    again = Page(file, opened.address())
    assert again.run("return band.from > 0 || band.to < 1") and "rows=" in again.address()
    again.find("body").send_keys("0")
    assert again.run("return [band.from, band.to]") == [0, 1]
    again.find("body").send_keys("W")
    assert again.run("return band.to - band.from") < 1
    again.find("body").send_keys("S", "S", "D", "A")
    assert again.run("return band.to - band.from") == 1 and again.complaints() == []


@fact
def stacks_are_named_by_who_asked_not_by_weir():
    trace = Trace()
    trace.pool(1, "main")
    lines = ("weir_malloc", "at::empty", "forward", "step", "main")
    for number, name in enumerate(lines, 1):
        trace.line(number, number, name, "model.py" if name in ("forward", "step") else "lib.c")
    for number, stack in enumerate(([1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 4], [1, 5], [1]), 1):
        trace.stack(number, stack)
        trace.event("malloc", stream=1, pool=1, address=number << 20, size=512 * (9 - number), given=512 * (9 - number), stack=number)
    opened = page(trace)
    opened.find("body").send_keys("2")
    names = opened.run("return [...document.querySelectorAll('#holders button.name')].map(button => button.textContent)")
    assert names == ["forward (model.py:3) < step (model.py:4)", "forward (model.py:3) < main (lib.c:5)", "step (model.py:4)", "main (lib.c:5)",
                     "weir_malloc (lib.c:1)"], names


@fact
def runs_of_different_days_both_begin_at_zero_and_ranks_of_one_job_where_they_did():
    def run(started):
        trace = Trace(started_real=str(started))
        trace.pool(1, "main")
        for number in range(200):
            trace.event("malloc", stream=1, pool=1, address=number << 20, size=512, given=512, time=number * 5000000)
        return trace

    for later, shown in ((86400, ["0 s", "0 s"]), (0.5, ["0 s", "500 ms"])):
        opened = page(run(1700000000 * 10**9), run(int((1700000000 + later) * 10**9)))
        begins = []
        for number in (0, 1):
            opened.run("location.hash = '#axis=time&at=%d,0,1'" % number)
            opened.wait("document.getElementById('moment').dataset.trace === '%d'" % number)
            begins.append(opened.text("#moment-title").split(",")[0])
        assert begins == shown, begins


@fact
def address_of_the_page_brings_the_view_back():
    file = make(refused())
    opened = Page(file)
    body = opened.find("body")
    for key in "p35wdx":
        body.send_keys(key)
    opened.find("#search").send_keys("size>1M")
    address, moment = opened.address(), opened.moment()
    again = Page(file, address)
    assert again.moment() == moment and again.address() == address
    assert again.find("#search").get_attribute("value") == "size>1M" and again.find("#grouping").get_attribute("value") == "size"


@fact
def search_has_its_own_grammar():
    trace = Trace()
    trace.pool(1, "main")
    for number, name in enumerate(("kv cache", "weights"), 1):
        trace.tag(number, name)
        trace.line(number, 1, "attention" if number == 1 else "embed", "model.py")
        trace.stack(number, [number])
    for number, (size, tag) in enumerate(((9 * MIB, 1), (4 * MIB, 1), (9 * MIB, 2), (64 << 10, 2))):
        trace.event("malloc", thread=100 + number, stream=number, pool=1, address=number << 24, size=size, given=size, tag=tag, stack=tag)
    trace.event("free", thread=100, stream=0, pool=1, address=0, size=9 * MIB)
    opened = page(trace)
    for text, count in (("tag:kv", 2), ("tag:kv size>8M", 1), ("stack:attention", 2), ("attention", 2), ("size<=64K", 1), ("size=4MiB", 1), ("-tag:kv", 2),
                        ('tag:"kv cache" -size>8M', 1), ("pool:main", 4), ("stream:0x2", 1), ("thread:103", 1), ("is:live", 4), ("is:cached", 0), ("life<1ms", 4),
                        ("life>1s", 0), ("nothing", 0), ("size>1.5M", 3)):
        opened.run("const box = document.getElementById('search'); box.value = arguments[0]; box.dispatchEvent(new Event('input'))", text)
        assert opened.text("#search-said") == "%d blocks" % count, (text, opened.text("#search-said"))
    for text, words in (("sise:1", "there is tag:"), ("size>8X", "no unit 'X'"), ("is:dead", "is:live")):
        opened.run("const box = document.getElementById('search'); box.value = arguments[0]; box.dispatchEvent(new Event('input'))", text)
        assert words in opened.text("#search-said"), opened.text("#search-said")
    opened.check()


@fact
def each_lane_has_a_table_with_the_same_figures():
    file = refused()
    opened = page(file)
    rows = opened.table("memory")
    assert rows[0][:4] == ["time", "event", "live", "held"]
    for row in rows[1::5]:
        wanted = weir("trace", "live", "--at=#" + row[1].replace(",", ""), file)[0]
        assert wanted.startswith("At %s: %s in " % (row[0], row[2])) and "held by the pools %s." % row[3] in wanted, (row, wanted)
    waits = document("events", file)["events"]
    steps = opened.table("steps")[1:]
    assert len(steps) == sum(event["kind"] in ("map", "trim", "unmap", "wait", "synchronise", "rung", "out of memory") for event in waits)
    blocks = opened.table("map")[1:]
    addresses = {event["address"] for event in waits if event["kind"] in ("malloc", "serve")}
    assert blocks and all(row[0] in addresses for row in blocks) and blocks[0][1] == "192 MiB"
    opened.wait("document.body.dataset.measured === 'yes'")
    assert len(opened.table("free")) > 5


@fact
def two_files_and_replays_lie_beside_each_other():
    policy = tap.write("small.yaml", "weir: 1\npools: { tensors: { release_threshold: all, cache: off } }\n")
    file = make("--policy=" + policy, GENERATION)
    opened = Page(file)
    opened.check()
    wanted = json.loads(weir("replay", "--json", "--policy=" + policy, GENERATION)[0])[0]["policies"]
    rows = opened.run("return [...document.querySelectorAll('#replays tr[data-peak]')].map(row => [Number(row.dataset.peak), Number(row.dataset.stall)])")
    assert rows == [[one["peak_reserved"], one["stall"]] for one in wanted], (rows, wanted)
    assert "small.yaml" in opened.text(".lane.memory .legend")
    opened.find("#replays tbody tr:last-child input").click()
    assert "small.yaml" not in opened.text(".lane.memory .legend")
    opened = page(GENERATION, LORA)
    opened.find("body").send_keys("p")
    beside = opened.run("return [...document.querySelectorAll('#compare tr[data-live]')].map(row => [Number(row.dataset.live), Number(row.dataset.held)])")
    lora = document("peak", LORA)
    assert len(beside) == 2 and beside[1] == [lora["live"], lora["held"]], (beside, lora["live"])
    for colour in opened.legend("compare"):
        assert opened.colours(".lane.compare canvas.drawn")[colour] > 10
    opened = Page(make("--policy=" + policies()[0], "--policy=" + policies()[2], GENERATION, LORA))
    opened.check()
    legend = opened.legend("compare")
    assert len(legend) == 8 and len(set(legend[:4])) == 4 and legend[4] not in legend[:4] and legend[1:4] == legend[5:], legend


MARKS = "return [...document.querySelectorAll(arguments[0])].map(canvas => canvas.getContext('2d').getImageData(12, 12, 1, 1).data.slice(0, 3).join())"


def policies():
    """Files of three policies that every trace can be replayed under."""
    texts = {"capped": "{ max_size: 64MiB, small_below: 0 }", "arena": "{ backing: arena }", "all": "{ release_threshold: all }"}
    return [tap.write(name + ".yaml", "weir: 1\npools: { main: %s }\n" % pool) for name, pool in texts.items()]


@fact
def several_policies_lie_over_each_of_the_traces():
    for file in (GENERATION, LORA, refused()):
        for names in ([], policies()[:1], policies()[:2], policies() * 3, policies()) if file == GENERATION else (policies(),):
            opened = Page(make(*["--policy=" + name for name in names], file))
            opened.check()
            if not names:
                assert opened.run("return document.getElementById('replays').hidden")
                continue
            replayed = json.loads(weir("replay", "--json", *["--policy=" + name for name in names], file, status=None)[0])[0]
            wanted = replayed["policies"]
            refusals = opened.run("return [...document.querySelectorAll('#replays tr[data-peak]')].map(row => row.cells[3].textContent.replace(/,/g, ''))")
            assert list(map(int, refusals)) == [one["refused"] + replayed["recorded"]["refused"] - one["newly_served"] for one in wanted], (file, refusals)
            rows = opened.run("return [...document.querySelectorAll('#replays tr[data-peak]')].map(row => [Number(row.dataset.peak), Number(row.dataset.stall)])")
            assert rows == [[one["peak_reserved"], one["stall"]] for one in wanted], (file, rows, wanted)
            # A policy has one colour wherever it is named, and its line is there.
            colours = opened.run(MARKS, "#replays .swatch")
            assert opened.run(MARKS, "#compare .swatch")[1:] == colours and len(set(colours)) == len(colours), (file, colours)
            assert opened.run(MARKS, ".lane.memory .legend .swatch")[-len(names):] == colours[1:], file
            opened.find("body").send_keys("p")
            live = opened.run("return [...document.querySelectorAll('#compare tr[data-live]')].map(row => Number(row.dataset.live))")
            # What the recording had at its peak the replay of its own policy has at the same place of the axis.
            assert file == refused() or live[0] == live[1] == document("peak", file)["live"], (file, live)
            shown = opened.colours(".lane.memory canvas.drawn")
            drawn = [shown["#%02x%02x%02x" % tuple(map(int, colour.split(",")))] for colour in colours[1:]]
            assert len(names) > 3 or min(drawn) > 20, (file, drawn)


@fact
def policies_with_hostile_names_and_such_that_fail_are_rows():
    names = [tap.write(name, "weir: 1\npools: { main: { release_threshold: all } }\n") for name in ("<b onclick=x>&amp;'\".yaml", "a\x1b[31m\nb.yaml", "\u202egnp.yaml")]
    names.append(os.fsdecode(os.path.join(os.fsencode(tap.FOLDER.name), b"\xff\xfe.yaml")))
    with open(names[-1], "w", encoding="utf-8") as file:
        file.write("weir: 1\npools: { main: {} }\n")
    names.append(tap.write("elsewhere.yaml", "weir: 1\npools: { main: { devices: [7] } }\n"))
    file = os.path.join(tap.FOLDER.name, "hostile-policies.html")
    weir("trace", "page", "-o", file, *["--policy=" + name for name in names], GENERATION, status=None)
    opened = Page(file)
    opened.check()
    rows = opened.run("return [...document.querySelectorAll('#replays tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    assert len(rows) == 6 and sum("failed: " in row[1] for row in rows) == 1 and "failed: " in rows[-1][1], rows
    assert "<b onclick=x>" in rows[1][0] and "\\x1b[31m" in rows[2][0], rows
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", opened.run("return document.body.innerText"))
    assert opened.run("return document.querySelectorAll('b, img').length") == 0


@fact
def front_of_tune_is_shown_and_a_click_draws_its_line():
    done = weir("tune", "--json", "--costs=" + shipped("config/costs/nvidia-h200.yaml"), GENERATION)[0]
    file = make("--tune=" + tap.write("found.json", done), GENERATION)
    opened = Page(file)
    opened.check()
    front = json.loads(done)["pools"][0]["front"]
    rows = opened.run("return [...document.querySelectorAll('#tune table tr[data-peak]')].map(row => [Number(row.dataset.peak), Number(row.dataset.stall)])")
    assert rows[: len(front)] == [[trial["figures"]["peak_reserved"], trial["figures"]["stall"]] for trial in front]
    assert all(max(trial["reserved"]) <= trial["figures"]["peak_reserved"] for trial in front)
    before = opened.colours(".lane.memory canvas.drawn")["#cc79a7"]
    opened.find("#tune button.name").click()
    assert "weir tune" in opened.text(".lane.memory .legend") and opened.colours(".lane.memory canvas.drawn")["#cc79a7"] != before
    opened.find("#tune button.name").click()
    assert "weir tune" not in opened.text(".lane.memory .legend")


@fact
def columns_sort():
    opened = page(GENERATION)
    rows = sorted(opened.holders("5"), reverse=True)
    opened.find('#holders [data-sort="blocks"]').click()
    opened.find('#holders [data-sort="blocks"]').click()
    shown = opened.run("return [...document.querySelectorAll('#holders tr[data-key]')].map(row => Number(row.dataset.blocks))")
    assert shown == sorted(row[1] for row in rows) and opened.run("return document.querySelector('#holders th[aria-sort]').getAttribute('aria-sort')") == "ascending"


try:
    tap.main()
finally:
    Page.end()
