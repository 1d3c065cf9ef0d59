# SPDX-License-Identifier: MIT
"""top_test.py BUILD - `weir top` and `weir ps --watch` on a terminal of their own, with processes on one simulated machine. Speaks TAP."""
import os
import signal
import subprocess
import sys
import tempfile

import screen

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap
from tap import fact

BUILD = os.path.abspath(sys.argv[1])
WEIR = os.path.join(BUILD, "tools", "weir")
WORKER = os.path.join(BUILD, "tests", "tools", "worker")
FOLDER = tempfile.TemporaryDirectory(prefix="weir-top-")
OFTEN = "--interval=0.1"
PATIENT = "--timeout=60"

POLICY = """
weir: 1
control: true
defaults: { pool: work }
pools:
  work: { small_below: 0 }
  frames: { small_below: 0 }
"""


def environment():
    path = os.path.join(FOLDER.name, "policy.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(POLICY)
    os.environ.update(WEIR_CONTROL_DIR=FOLDER.name, WEIR_GPU="sim", WEIR_POLICY=path, HOME=FOLDER.name, LC_ALL="C.UTF-8")
    for name in ("WEIR_CONF", "NO_COLOR", "XDG_CONFIG_HOME"):
        os.environ.pop(name, None)


class Worker:
    """A process that can be seen."""

    def __init__(self):
        self.process = subprocess.Popen([WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.expect()

    def expect(self):
        answer = self.process.stdout.readline()
        assert answer == "WEIR_OK\n", "a process says %r" % answer

    def hold(self, mib):
        """Takes so much more of its pool."""
        self.process.stdin.write("malloc %d\n" % mib)
        self.process.stdin.flush()
        self.expect()

    def stop(self):
        """Every thread of it has to be stopped before it is asked in vain."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def end(self):
        self.process.kill()
        self.process.communicate()


class Stage:
    """Two processes, the first of which holds more, and `weir top`."""

    machines = 0

    def __init__(self, *arguments, count=2, command=("top", OFTEN), **terminal):
        self.arguments, self.count, self.command, self.settings = arguments, count, command, terminal
        self.workers, self.terminal = [], None
        Stage.machines += 1
        self.machine = "top-%d-%d" % (os.getpid(), Stage.machines)

    def __enter__(self):
        os.environ["WEIR_SIM"] = "name=%s,memory=2GiB" % self.machine
        try:
            for nth in range(self.count):
                self.workers.append(Worker())
                self.workers[nth].hold((self.count - nth) * 64)
            self.terminal = screen.Terminal([WEIR, *self.command, PATIENT, *self.arguments], **self.settings)
            if self.settings.get("rows", 24) >= 24:
                self.sees_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.terminal:
            self.terminal.close()
        for worker in self.workers:
            worker.end()
        try:
            os.unlink("/dev/shm/weir-sim-%d-%s" % (os.geteuid(), self.machine))  # those that are killed leave it
        except FileNotFoundError:
            pass

    def order(self):
        """The processes of the list, by their place in self.workers, from the top."""
        pids = [worker.pid for worker in self.workers]
        lines = self.terminal.lines()
        shown = [line.split()[0] for line in lines[1:lines.index("") if "" in lines else None]]
        return [pids.index(int(word)) for word in shown if word.isdigit() and int(word) in pids]

    def all_are_shown(self):
        return sorted(self.order()) == list(range(len(self.workers)))

    def sees_all(self):
        self.terminal.until(self.all_are_shown, "every process is shown")

    def sees(self, *words):
        """Waits until each word is on the screen."""
        self.terminal.until(lambda: all(word in self.terminal.text() for word in words), "the screen says %s" % ", ".join(words))

    def loses(self, word):
        self.terminal.until(lambda: word not in self.terminal.text(), "the screen does not say %s" % word)

    def comes_to(self, order):
        self.terminal.until(lambda: self.order() == order, "the order is %s" % order)

    def ends(self, keys="", expected=0):
        self.terminal.press(keys)
        status = self.terminal.wait()
        assert status == expected, "it ends with %d" % status
        assert self.terminal.is_restored(), "the terminal is not as it was"


@fact
def processes_are_shown_with_their_figures_the_largest_first():
    for command in ("top", OFTEN), ("ps", "--watch=0.1"):
        with Stage(command=command, columns=130) as stage:
            stage.sees("PROGRAM", "CAP", "POLICY", "worker", "work", "frames", "128 MiB", "64 MiB")
            assert stage.order() == [0, 1], stage.order()


@fact
def figures_and_order_change_by_themselves():
    with Stage() as stage:
        stage.workers[1].hold(256)
        stage.sees("320 MiB")
        stage.comes_to([1, 0])


@fact
def each_look_is_drawn_over_the_one_before():
    with Stage() as stage:
        for mib in (16, 32, 64):
            stage.workers[0].hold(mib)
        stage.sees("240 MiB")
        assert stage.terminal.text().count("PROGRAM") == 1, stage.terminal.text()


@fact
def another_size_is_drawn_in_that_size():
    with Stage("--interval=3600", columns=100, rows=24) as stage:
        stage.terminal.resize(100, 4)
        stage.sees("more lines: this terminal has 4")
        stage.terminal.resize(100, 40)
        stage.sees_all()
        stage.loses("more lines")


@fact
def a_tiny_screen_shows_the_beginning():
    with Stage(columns=30, rows=3) as stage:
        stage.sees("  PID", "more lines")
        lines = stage.terminal.lines()
        assert "PID" in lines[0] and str(stage.workers[0].pid) in lines[1] and lines[2].startswith("... "), lines


@fact
def a_killed_process_leaves():
    with Stage() as stage:
        stage.workers[0].end()
        stage.comes_to([1])


@fact
def watch_of_one_process_ends_with_it():
    with Stage(count=1) as stage:
        stage.terminal.close()
        stage.terminal = screen.Terminal([WEIR, "ps", "--watch=0.1", PATIENT, str(stage.workers[0].pid)])
        stage.sees_all()
        stage.workers[0].end()
        stage.sees("there is no process %d" % stage.workers[0].pid)
        stage.ends(expected=1)


@fact
def a_stopped_process_is_shown_with_the_reason_and_hides_no_other():
    with Stage("--timeout=5") as stage:  # who was late once is asked again
        stage.workers[0].stop()
        stage.workers[1].hold(256)
        stage.sees("process %d: " % stage.workers[0].pid, "did not answer in time", "320 MiB")
        os.kill(stage.workers[0].pid, signal.SIGCONT)
        stage.loses("did not answer")


@fact
def without_processes_it_says_what_to_set():
    with Stage(count=0) as stage:
        stage.sees("No process can be seen here", "control: true")


@fact
def control_c_and_signals_end_it():
    with Stage(count=1) as stage:
        stage.ends("\003")
    for number in (signal.SIGTERM, signal.SIGHUP):
        with Stage(count=1) as stage:
            os.kill(stage.terminal.pid, number)
            stage.ends()


@fact
def headings_are_bold_but_without_colour():
    with Stage() as stage:
        stage.ends("\003")
        assert 1 in stage.terminal.screen.colours, stage.terminal.screen.colours
    with Stage(NO_COLOR="1") as stage:
        stage.ends("\003")
        assert not stage.terminal.screen.colours, stage.terminal.screen.colours


@fact
def a_terminal_that_cannot_be_drawn_on_gets_one_block_behind_another():
    with Stage(TERM="dumb", rows=40, columns=130) as stage:
        stage.terminal.until(lambda: stage.terminal.text().count("PROGRAM") > 1, "there are two blocks")


environment()
tap.main()
