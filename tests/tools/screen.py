# SPDX-License-Identifier: MIT
"""screen.py - a command on a terminal of its own: what it draws as lines of text, keys and signals for it, and another size.

The terminal understands what `weir ps --watch` sends, and nothing else. Nothing here waits for a time: until() reads until something is so, and gives up
after two minutes.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

DEADLINE = 120  # seconds, far more than anything takes

# One control sequence, or one that is not complete yet.
SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([@-~])")
PARTIAL = re.compile(r"\x1b(?:\[\??[0-9;]*)?$")


class Screen:
    """The cells that a terminal of this size shows."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.row = self.column = 0
        self.wraps = True  # a line that is too long goes on in the next row
        self.colours = set()
        self.rest = ""
        self.clear()

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns - 1)
        self.clear()

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def erase(self, first, last):
        """Cells, counted through all rows; last is behind them."""
        for at in range(first, last):
            self.cells[at // self.columns][at % self.columns] = " "

    def write(self, character):
        if self.column >= self.columns and self.wraps:
            self.column = 0
            self.feed_line()
        self.column = min(self.column, self.columns - 1)
        self.cells[self.row][self.column] = character
        self.column += 1

    def feed_line(self):
        """The next row; below the last one everything moves up."""
        if self.row == self.rows - 1:
            self.cells = self.cells[1:] + [[" "] * self.columns]
        self.row = min(self.row + 1, self.rows - 1)

    def feed(self, text):
        text, at = self.rest + text, 0
        self.rest = ""
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found:
                    if PARTIAL.match(text, at):
                        self.rest = text[at:]
                        return
                    raise AssertionError("not understood: %r" % text[at:at + 20])
                at = found.end()
                self.control(found.group(1), found.group(2), found.group(3))
                continue
            at += 1
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.feed_line()
            elif character >= " ":
                self.write(character)

    def control(self, mark, parameters, final):
        here = self.row * self.columns + min(self.column, self.columns - 1)
        if mark + parameters == "?7" and final in "hl":
            self.wraps = final == "h"
        elif mark + parameters + final == "H":
            self.row = self.column = 0
        elif mark + parameters + final == "J":
            self.erase(here, self.rows * self.columns)
        elif not mark and final == "m":
            self.colours.update(int(number or 0) for number in parameters.split(";"))
        else:
            raise AssertionError("not understood: %s%s%s" % (mark, parameters, final))


class Terminal:
    """A command that runs on a terminal of its own."""

    def __init__(self, command, columns=100, rows=24, **environment):
        self.screen = Screen(columns, rows)
        self.status = None
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may come in two parts
        self.master, self.slave = pty.openpty()
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
                for fd in range(3):
                    os.dup2(self.slave, fd)
                os.execve(command[0], command, {**os.environ, "TERM": "xterm", **environment})
            finally:
                os._exit(127)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        """The screen is blank afterwards. The rest of a picture in the old size may still come; the command, which is told of the new size
        next, clears the screen then."""
        self.screen.resize(columns, rows)
        self.set_size(columns, rows)

    def lines(self):
        return self.screen.lines()

    def text(self):
        return "\n".join(self.lines())

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, seconds):
        """Takes in what the command has drawn meanwhile. False: nothing was there."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.screen.feed(self.decoder.decode(os.read(self.master, 65536)))
        return True

    def until(self, is_so, what):
        """Reads until it is so."""
        end = time.monotonic() + DEADLINE
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError("in vain: %s\n%s" % (what, self.text()))
            if self.has_ended():
                while self.read(0):
                    pass
                if not is_so():
                    raise AssertionError("ended before: %s\n%s" % (what, self.text()))
                return
            self.read(0.1)

    def has_ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def wait(self):
        """The exit status, with all output read; negative: the signal that ended it."""
        end = time.monotonic() + DEADLINE
        while not self.has_ended():
            if time.monotonic() > end:
                raise AssertionError("it does not end\n%s" % self.text())
            self.read(0.1)
        while self.read(0):
            pass
        return os.waitstatus_to_exitcode(self.status)

    def is_restored(self):
        """Whether the terminal is as it was, with its settings, and wraps lines, once all has come that the command wrote before it ended."""
        end = time.monotonic() + DEADLINE
        while not (termios.tcgetattr(self.slave) == self.before and self.screen.wraps) and time.monotonic() < end:
            self.read(0.1)
        return termios.tcgetattr(self.slave) == self.before and self.screen.wraps

    def close(self):
        if not self.has_ended():
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            self.status = 9
        os.close(self.slave)
        os.close(self.master)
