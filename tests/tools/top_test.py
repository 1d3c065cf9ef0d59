# SPDX-License-Identifier: MIT
"""top_test.py BUILD - `weir top` on a terminal of its own, with processes on one simulated machine. Speaks TAP.

Looks at the processes are taken when a test presses enter, so that none is missed however slow the machine is.
"""
import locale
import os
import shutil
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
SELDOM = "--interval=3600"
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

    def __init__(self, *arguments, count=2, **terminal):
        self.arguments, self.count, self.settings = arguments, count, terminal
        self.workers, self.terminal = [], None
        Stage.machines += 1
        self.machine = "top-%d-%d" % (os.getpid(), Stage.machines)

    def __enter__(self):
        os.environ["WEIR_SIM"] = "name=%s,memory=2GiB" % self.machine
        try:
            for nth in range(self.count):
                self.workers.append(Worker())
                self.workers[nth].hold((self.count - nth) * 64)
            self.terminal = screen.Terminal([WEIR, "top", SELDOM, PATIENT, *self.arguments], **self.settings)
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
        shown = [line.split()[0].split(".")[0] for line in self.terminal.lines()[1:] if line.strip()]
        return [pids.index(int(word)) for word in shown if word.isdigit() and int(word) in pids]

    def all_are_shown(self):
        return sorted(self.order()) == list(range(len(self.workers)))

    def sees_all(self):
        self.terminal.until(self.all_are_shown, "every process is shown")

    def sees(self, *words, keys=""):
        """Presses the keys, and waits until each word is on the screen."""
        self.terminal.press(keys)
        self.terminal.until(lambda: all(word in self.terminal.text() for word in words), "the screen says %s" % ", ".join(words))

    def rates(self):
        """The number of pools that have a rate."""
        lines = self.terminal.lines()
        heading = next(line for line in lines if "ALLOC/S" in line)
        end = heading.index("ALLOC/S") + len("ALLOC/S")
        return sum(line[end - 1:end].isdigit() for line in lines[lines.index(heading) + 1:-1])

    def loses(self, word, keys=""):
        self.terminal.press(keys)
        self.terminal.until(lambda: word not in self.terminal.text(), "the screen does not say %s" % word)

    def comes_to(self, order, keys):
        self.terminal.press(keys)
        self.terminal.until(lambda: self.order() == order, "the order is %s" % order)

    def quits(self, keys="q"):
        self.terminal.press(keys)
        status = self.terminal.wait()
        assert status == 0, "it ends with %d" % status
        assert self.terminal.is_restored(), "the terminal is not as it was"


@fact
def both_processes_are_shown_with_their_figures():
    with Stage() as stage:
        stage.sees("weir top: 2 processes by reserved", "PROGRAM", "worker", "work", "frames", "128 MiB", "64 MiB")


@fact
def the_head_tells_of_the_device():
    with Stage(columns=130) as stage:
        stage.sees("every 3600 s", "device 0: 192 MiB used, 1.8 GiB free; here reserved 192 MiB, live 192 MiB, idle 0 B")


@fact
def rates_are_shown_from_the_second_look_on():
    with Stage() as stage:
        stage.sees("ALLOC/S")
        stage.workers[1].hold(256)
        stage.sees("320 MiB", keys="\r")
        stage.terminal.until(lambda: stage.rates() == 4, "every pool has a rate")


@fact
def keys_change_the_order():
    with Stage() as stage:
        by_number = sorted((0, 1), key=lambda nth: stage.workers[nth].pid)  # the system's numbers begin anew some time
        stage.sees("by pid,", keys="p")
        stage.comes_to(by_number, "")
        for key, label in (("r", "reserved"), ("l", "live"), ("i", "idle"), ("a", "allocations")):
            stage.sees("by %s," % label, keys=key)
        stage.comes_to([0, 1], "r")


@fact
def enter_looks_again():
    with Stage() as stage:
        stage.workers[1].hold(256)
        stage.sees("320 MiB", "here reserved 448 MiB", keys="\r")


@fact
def figures_change_by_themselves():
    with Stage("--interval=0.1") as stage:
        stage.workers[1].hold(256)
        stage.sees("320 MiB", "here reserved 448 MiB")


@fact
def help_comes_and_goes():
    with Stage() as stage:
        stage.sees("order by idle memory", "quit", keys="h")
        stage.loses("order by idle memory", keys="?")
        stage.sees_all()


@fact
def another_size_is_drawn_in_that_size():
    with Stage(columns=100, rows=24) as stage:
        stage.terminal.resize(130, 40)
        stage.sees_all()
        stage.terminal.until(lambda: "q quit" in stage.terminal.lines()[39], "the footer is in the last of 40 rows")
        stage.terminal.resize(60, 12)
        stage.sees_all()
        stage.terminal.until(lambda: stage.terminal.lines()[11].startswith("h help  q quit"), "the footer is in the last of 12 rows")


@fact
def a_tiny_screen_shows_what_fits_and_grows_again():
    with Stage() as stage:
        for columns, rows in ((20, 4), (3, 2), (1, 1)):
            stage.terminal.resize(columns, rows)
            stage.sees("weir top"[:columns])
        stage.terminal.resize(100, 24)
        stage.sees_all()


@fact
def a_long_list_is_moved_through():
    with Stage(count=6, rows=8) as stage:
        stage.sees("rows 1 to ", "of 12")
        stage.sees("rows 2 to ", keys="\033OB")
        stage.sees("to 12 of 12", keys="\033OF")
        stage.sees("rows 1 to ", keys="\033OH")


@fact
def a_killed_process_is_gone_once_and_then_away():
    with Stage() as stage:
        stage.workers[0].end()
        stage.sees("%d" % stage.workers[0].pid, "worker: gone", keys="\r")
        stage.comes_to([1], "\r")
        stage.sees("weir top: 1 process by")


@fact
def a_stopped_process_is_shown_with_the_reason_and_hides_no_other():
    with Stage("--timeout=5", "--interval=0.1") as stage:  # who was late once is asked again
        stage.workers[0].stop()
        stage.workers[1].hold(256)
        stage.sees("worker: ", "did not answer in time", "320 MiB", keys="\r")
        os.kill(stage.workers[0].pid, signal.SIGCONT)
        stage.loses("did not answer", keys="\r")


@fact
def keys_are_served_while_a_process_keeps_it_waiting():
    with Stage("--timeout=3600") as stage:
        stage.workers[0].stop()
        stage.sees("order by idle memory", keys="\rh")
        stage.loses("order by idle memory", keys="h")
        stage.quits()


@fact
def without_processes_it_says_what_to_set():
    with Stage(count=0) as stage:
        stage.sees("No process can be seen here", "control: true")


@fact
def q_restores_the_terminal():
    with Stage() as stage:
        assert stage.terminal.screen.is_other and not stage.terminal.screen.has_cursor, "it does not use a screen of its own"
        stage.quits()


@fact
def control_c_restores_the_terminal():
    with Stage() as stage:
        stage.quits("\003")


@fact
def a_signal_restores_the_terminal():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        with Stage(count=1) as stage:
            os.kill(stage.terminal.pid, number)
            stage.quits("")


@fact
def colours_are_used():
    with Stage(columns=130) as stage:
        stage.workers[0].end()
        stage.sees("worker: gone", keys="\r")
        stage.quits()
        assert 31 in stage.terminal.screen.colours, stage.terminal.screen.colours


@fact
def no_color_is_respected():
    with Stage(columns=130, NO_COLOR="1") as stage:
        stage.quits()
        assert not stage.terminal.screen.colours, stage.terminal.screen.colours


def refuses(expected, *command, **settings):
    with Stage(*command, count=0, **settings) as stage:
        status = stage.terminal.wait()
        assert status == 2, "it ends with %d" % status
        assert all(word in stage.terminal.text() for word in expected), stage.terminal.text()
        assert stage.terminal.is_restored(), "the terminal is not as it was"


@fact
def a_terminal_that_cannot_be_drawn_on_is_refused():
    refuses(("TERM=dumb: such a terminal cannot be drawn on", "weir ps"), TERM="dumb")


@fact
def an_unknown_terminal_is_refused():
    refuses(("TERM=fhqwhgads: there is no such terminal type", "weir ps"), TERM="fhqwhgads")


@fact
def without_a_terminal_it_names_what_needs_none():
    done = subprocess.run([WEIR, "top"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and not done.stdout and "it needs a terminal; 'weir ps'" in done.stderr, done


def why_not():
    """Why nothing can be looked at here, or None."""
    done = subprocess.run([WEIR, "top"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if "built without ncurses" in done.stderr:
        return "this build has no ncurses" if done.returncode == 2 and "'weir ps'" in done.stderr else None
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "there is no locale C.UTF-8"
    if shutil.which("infocmp") and subprocess.run(["infocmp", "xterm"], stdout=subprocess.DEVNULL, check=False).returncode:
        return "the terminal type xterm is not known here: install ncurses-base"
    return None


def main():
    environment()
    reason = why_not()
    if reason:
        print("1..0 # SKIP %s" % reason)
        return
    tap.main()

main()
