# SPDX-License-Identifier: MIT
"""
share_host.py - another process for share_test.py: runs the lines of Python that it is told, one after the other, and answers each.

    Host("...")     starts one, which shares a pool; run() has it run a line, and value() evaluate one
"""

import ast
import json
import os
import signal
import subprocess
import sys

POLICY = """weir: 1
defaults: { pool: work }
pools:
  work: {}
  frames: { devices: [0], ipc: posix_fd, share: { socket: frames } }
"""
EXPORT = """
import ctypes, os, weir.share
e = weir.share.Exporter("frames", policy_text=%r)
ring = e.ring("camera", 4096, 4, stream=None)
def push(number, shape=(16, 16), dtype="uint8", metadata=b"", raw=False):
    with ring.take(20.0) as slot:
        array = slot.array(shape, dtype)
        ctypes.memset(array._ptr, number %% 256, array.nbytes)
        if raw:
            slot._what = None
        slot.metadata = metadata
""" % POLICY


class Host:
    """Such a process."""

    def __init__(self, code=EXPORT):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.run(code)

    def tell(self, code):
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def hear(self):
        answer = json.loads(self.process.stdout.readline() or '["dead", ""]')
        assert answer[0] == "ok", answer[1]
        return answer[1]

    def run(self, code):
        self.tell(code)
        return self.hear()

    def value(self, expression):
        return ast.literal_eval(self.run(expression))

    def until(self, expression, wanted):
        """Asks until it is so. Who never gets there is ended by the time limit of the tests."""
        while self.value(expression) != wanted:
            pass

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def main():
    names = {}
    for line in sys.stdin:
        code = json.loads(line)
        try:
            try:
                answer = ["ok", repr(eval(code, names))]
            except SyntaxError:
                exec(code, names)
                answer = ["ok", "None"]
        except BaseException as error:
            answer = ["error", "%s: %r" % (code, error)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
