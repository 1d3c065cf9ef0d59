#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""plot.py - draws what weir-bench measured with several threads: nanoseconds per pair over threads, raw against Weir.

    plot.py [-o FILE.svg] FILE.json...

Each FILE.json is what weir-bench --json wrote; one of them has the section 'threads'. Writes an SVG, to standard output without -o. The
same figures make the same bytes. Needs nothing but Python 3.
"""
import argparse
import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 920, 560
LEFT, RIGHT, TOP, BOTTOM = 84, 290, 66, 84  # margins: axes, and the legend on the right
COLOURS = {"raw": "#b3400e", "weir": "#0b5fa5"}
DASHES = ["", "9 5", "2 4", "12 4 2 4"]  # one for each group, in the order in which they come
MARKERS = ["circle", "square", "triangle", "diamond"]


class Refused(Exception):
    """What is wrong with the input, and what to do about it."""


def read_figures(paths):
    """The machine of the file that has the section, and {group: {series: [(threads, median, min, max)]}}."""
    machine, groups = {}, {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            figures = [f for f in data["figures"] if f["section"] == "threads" and "group" in f]
            if figures:
                machine = data["machine"]
            for figure in figures:
                for series in figure["series"]:
                    point = (float(figure["x"]), float(series["median"]), float(series["min"]), float(series["max"]))
                    if not 0 < point[2] <= point[1] <= point[3] or point[0] < 1:
                        raise Refused(f"{path}: {figure['name']}: {series['name']}: not a time: {point[1:]}; measure again")
                    groups.setdefault(figure["group"], {}).setdefault(series["name"], []).append(point)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{path}: not what weir-bench --json writes ({error!r})") from error
    if not groups:
        raise Refused("no figures of several threads: run weir-bench --json FILE threads, and name FILE here")
    for group in groups.values():
        for points in group.values():
            points.sort()
    return machine, groups


class Axes:
    """Threads to the right, each doubling as far as the next; nanoseconds upwards, each power of ten as far as the next."""

    def __init__(self, groups):
        points = [p for group in groups.values() for series in group.values() for p in series]
        self.threads = sorted({p[0] for p in points})
        self.low = math.floor(math.log10(min(p[2] for p in points)))
        self.high = max(math.ceil(math.log10(max(p[3] for p in points))), self.low + 1)

    def x(self, threads):
        first, last = math.log2(self.threads[0]), math.log2(self.threads[-1])
        share = (math.log2(threads) - first) / (last - first) if last > first else 0.5
        return LEFT + 24 + share * (WIDTH - LEFT - RIGHT - 48)

    def y(self, nanoseconds):
        share = (math.log10(nanoseconds) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def duration(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def text(x, y, words, size=14, anchor="start", colour="#1a1a1a", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{extra}>{escape(words)}</text>'


def marker(kind, x, y, colour):
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>',
        "square": f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>',
        "triangle": f'<path d="M{x:.1f} {y - 5.5:.1f} l5 9 h-10 z" fill="{colour}"/>',
        "diamond": f'<path d="M{x:.1f} {y - 5.5:.1f} l5.5 5.5 l-5.5 5.5 l-5.5 -5.5 z" fill="{colour}"/>',
    }
    return shapes[kind]


def draw_axes(axes):
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for power in range(axes.low, axes.high + 1):
        y = axes.y(10.0**power)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#cfcfcf"/>'
        yield text(LEFT - 10, y + 5, duration(10.0**power), anchor="end")
    for threads in axes.threads:
        x = axes.x(threads)
        yield f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 6}" stroke="#1a1a1a"/>'
        yield text(x, bottom + 24, f"{threads:.0f}", anchor="middle")
    yield f'<path d="M{LEFT} {TOP} V{bottom} H{right}" fill="none" stroke="#1a1a1a"/>'
    yield text((LEFT + right) / 2, bottom + 50, "threads", 15, "middle")
    middle = (TOP + bottom) / 2
    yield text(22, middle, "time per pair in each thread (log)", 15, "middle", extra=f' transform="rotate(-90 22 {middle:.1f})"')


def draw_series(axes, points, colour, dash, kind):
    path = " ".join(f"{'L' if i else 'M'}{axes.x(p[0]):.1f} {axes.y(p[1]):.1f}" for i, p in enumerate(points))
    yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-dasharray="{dash or "none"}"/>'
    for threads, median, least, most in points:
        x = axes.x(threads)
        # The spread over the repetitions, where it is large enough to be seen.
        yield f'<line x1="{x:.1f}" y1="{axes.y(least):.1f}" x2="{x:.1f}" y2="{axes.y(most):.1f}" stroke="{colour}" stroke-opacity="0.5"/>'
        yield marker(kind, x, axes.y(median), colour)


def draw(machine, groups):
    axes = Axes(groups)
    where = ", ".join(f"{machine[key]}" if key == "device" else f"{key} {machine[key]}"
                      for key in ("device", "driver CUDA", "toolkit CUDA", "cores") if key in machine)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="Helvetica, Arial, sans-serif">')
    yield "<title>An allocation and its free, from several threads</title>"
    # Of its own, so that the drawing reads the same on a dark page.
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    yield text(LEFT, 28, "An allocation and its free, from several threads", 19, extra=' font-weight="bold"')
    yield text(LEFT, 50, where, 13, colour="#4a4a4a")
    yield from draw_axes(axes)
    y = TOP + 14
    for number, (group, series) in enumerate(groups.items()):
        dash, kind = DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)]
        for name in sorted(series):
            colour = COLOURS.get(name, "#555555")
            yield from draw_series(axes, series[name], colour, dash, kind)
            left = WIDTH - RIGHT + 24
            yield (f'<line x1="{left}" y1="{y}" x2="{left + 42}" y2="{y}" stroke="{colour}" stroke-width="2.2" '
                   f'stroke-dasharray="{dash or "none"}"/>')
            yield marker(kind, left + 21, y, colour)
            yield text(left + 52, y + 5, f"{name}: {group}", 13)
            last = series[name][-1]
            yield text(left + 52, y + 21, f"{duration(last[1])} at {last[0]:.0f} threads", 12, colour="#4a4a4a")
            y += 46
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(description="Draws the section 'threads' of weir-bench --json as an SVG.",
                                     epilog="Example: plot.py -o threads.svg bench-threads.json")
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("-o", "--output", metavar="FILE.svg", help="write here instead of to standard output")
    arguments = parser.parse_args()
    try:
        drawing = "\n".join(draw(*read_figures(arguments.files))) + "\n"
        if arguments.output:
            with open(arguments.output, "w", encoding="utf-8", newline="\n") as file:
                file.write(drawing)
        else:
            sys.stdout.buffer.write(drawing.encode())
    except (Refused, OSError) as error:
        sys.exit(f"plot.py: {error}")


if __name__ == "__main__":
    main()
