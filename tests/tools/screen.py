# SPDX-License-Identifier: MIT
"""screen.py - a command on a terminal of its own: what it draws as lines of text, keys and signals for it, and another size.

The terminal understands what ncurses sends to TERM=xterm. Nothing here waits for a time: until() reads until something is so, and gives up
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
SEQUENCE = re.compile(r"\x1b(?:\[([?>!]?)([0-9;]*)([@-~])|[()*+](.)|\]([^\x07\x1b]*)(?:\x07|\x1b\\)|([=>78cDEHMNOZ]))")
PARTIAL = re.compile(r"\x1b(?:\[[?>!]?[0-9;]*|[()*+]?|\][^\x07\x1b]*\x1b?)?$")


class Screen:
    """The cells that a terminal of this size shows."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.row = self.column = 0
        self.is_other = False  # the screen of full-screen programs
        self.has_cursor = True
        self.colours = set()
        self.last = " "
        self.rest = ""
        self.unknown = set()
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
        self.last = character
        if self.column >= self.columns:
            self.column, self.row = 0, min(self.row + 1, self.rows - 1)
        self.cells[self.row][self.column] = character
        self.column += 1

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
                if found.group(3):
                    self.control(found.group(1), found.group(2), found.group(3))
                continue
            at += 1
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row = min(self.row + 1, self.rows - 1)
            elif character == "\b":
                self.column = max(min(self.column, self.columns - 1) - 1, 0)
            elif character == "\t":
                self.column = min((self.column // 8 + 1) * 8, self.columns - 1)
            elif character >= " ":
                self.write(character)

    def control(self, mark, parameters, final):
        numbers = [int(number or 0) for number in parameters.split(";")]
        count = max(numbers[0], 1)
        here = self.row * self.columns + min(self.column, self.columns - 1)
        line = self.row * self.columns
        if mark == "?" and final in "hl":
            for number in numbers:
                if number == 1049:
                    self.is_other = final == "h"
                elif number == 25:
                    self.has_cursor = final == "h"
        elif mark or final in "rtlh":
            pass
        elif final in "Hf":
            self.row = min(count, self.rows) - 1
            self.column = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif final == "d":
            self.row = min(count, self.rows) - 1
        elif final == "G":
            self.column = min(count, self.columns) - 1
        elif final == "A":
            self.row = max(self.row - count, 0)
        elif final == "B":
            self.row = min(self.row + count, self.rows - 1)
        elif final == "C":
            self.column = min(self.column + count, self.columns - 1)
        elif final == "D":
            self.column = max(self.column - count, 0)
        elif final == "J":
            self.erase(*[(here, self.rows * self.columns), (0, here + 1), (0, self.rows * self.columns)][numbers[0]])
        elif final == "K":
            self.erase(*[(here, line + self.columns), (line, here + 1), (line, line + self.columns)][numbers[0]])
        elif final == "X":
            self.erase(here, min(here + count, line + self.columns))
        elif final == "P":
            row = self.cells[self.row]
            self.cells[self.row] = (row[:self.column] + row[self.column + count:] + [" "] * count)[:self.columns]
        elif final == "@":
            row = self.cells[self.row]
            self.cells[self.row] = (row[:self.column] + [" "] * count + row[self.column:])[:self.columns]
        elif final == "b":
            for _ in range(count):
                self.write(self.last)
        elif final == "m":
            self.colours.update(number for number in numbers if 30 <= number <= 37)
        else:
            raise AssertionError("not understood: %s%s" % (parameters, final))


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
        """Whether the terminal is as it was: its settings, the cursor, and the screen that it showed before."""
        return termios.tcgetattr(self.slave) == self.before and self.screen.has_cursor and not self.screen.is_other

    def close(self):
        if not self.has_ended():
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            self.status = 9
        os.close(self.slave)
        os.close(self.master)
