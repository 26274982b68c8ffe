"""`muster top` on a real pseudo terminal: what it shows, keys, sizes, terminals, and that it leaves everything as it was."""
import os
import re
import signal
import subprocess

from harness import MUSTER, main, muster
from serving import serving
from terminal import Terminal

CAMPAIGN = """
name: %s
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: 4, match: {%s}}
interval: %s
steps:
  - name: one
    target: cal
    workload: {size: 1GiB}
    load: 1T4Q
    measure: {warmup: 1s, window: %s}
"""


def campaign(place, name, window="60s", match="", interval="1s"):
    return place.file(name + ".yaml", CAMPAIGN % (name, match, interval, window))


def top(it, *args, **kwargs):
    return Terminal([MUSTER, "top", *args, "--controller", it.address], **kwargs)


def row_of(text, name):
    """The cells of the row that begins with `name`, if it has figures."""
    found = [line for line in text.splitlines() if line.split() and line.split()[0] == name]
    return re.split(r"\s{1,}", found[0].strip()) if found else []


def measures(*agents):
    """A condition: these rows have figures, percentiles among them."""
    def holds(text):
        return all(re.search(rf"^{a} +running +[0-9.]+ k +[0-9.]+ +[0-9.]+ [mu]s +[0-9.]+ [mu]s +\d+ +\d+ %", text, re.M)
                   for a in agents)
    return holds


def left_clean(terminal):
    assert terminal.restored(), "the terminal's modes are not as before"
    assert 1049 not in terminal.screen.modes, "the screen of before is not back"
    assert b"\x1b[?25h" in terminal.raw.split(b"\x1b[?25l")[-1] or b"\x1b[?25l" not in terminal.raw, "the cursor is hidden"
    assert not terminal.screen.unknown, terminal.screen.unknown


def test_rows_figures_keys_and_sizes(place):
    with serving(place) as it:
        it.agent("a1")
        it.agent("a2")
        it.wait_for_agents("a1", "a2")
        run = it.submit(campaign(place, "db"))
        with top(it) as t:
            shown = t.wait(measures("a1", "a2"), 60, "rows with figures")
            lines = shown.splitlines()
            assert lines[0].startswith("muster top  2 agents, 1 running, 0 waiting"), shown
            assert f"run {run}  step 1/1 one" in shown, shown
            assert re.search(r"measure 0:\d\d of 1:0\d.*ETA [01]:\d\d", shown), shown
            fleet = re.search(r"fleet  ([0-9.]+) k IOPS  ([0-9.]+) MB/s  p50 ([0-9.]+) ms  p99 [0-9.]+ ms  max", shown)
            # 4 initiators x 4 operations of 1 ms.
            assert fleet and 2 < float(fleet[1]) <= 17 and float(fleet[3]) >= 0.9, shown
            assert "failed 0" in shown and "▁" <= max(shown), shown
            t.keys("i")
            shown = t.wait(lambda s: len(re.findall(r"^ +[0-3] a[12] +[0-9.]+ k? +[0-9.]+ +[0-9.]+ ms", s, re.M)) == 4, 30,
                           "rows of initiators")
            assert "1-4/4" in shown, shown
            t.keys("l")
            t.wait(lambda s: re.search(r"^a1 +running +up +[0-9.]+ m?s +[+-][0-9.]+ [nmu]s \+- [0-9.]+ [nmu]s", s, re.M), 30,
                   "link, lease and clock")
            t.keys("as")
            t.wait(lambda s: "s sort: IOPS" in s and measures("a1", "a2")(s), 30, "sorted by IOPS")
            t.keys("r")
            t.wait(lambda s: "s sort: IOPS up" in s, 30, "reversed")
            for width, height in ((60, 15), (200, 60), (40, 10), (80, 24)):
                t.resize(width, height)
                shown = t.wait(lambda s: len(s.splitlines()) == height and re.match("1-[12]/2  q quit", s.splitlines()[-1])
                               and (row_of(s, "a1") or row_of(s, "a2")), 30, f"a screen of {width}x{height}")
                assert s_fits(shown, width), shown
                if width == 200:
                    t.wait(lambda s: re.search(r"^a1 .*%  ?up +[0-9.]+ m?s +[+-][0-9.]+ .s \+- ", s, re.M), 30, "all columns")
            t.keys("q")
            assert t.ended() == 0
            left_clean(t)
        assert it.runs()[run]["state"] == "running", "looking at a run does not end it"


def s_fits(text, width):
    return all(len(line) <= width for line in text.splitlines())


def test_many_rows_scroll(place):
    with serving(place) as it:
        for n in range(8):
            it.agent(f"a{n}")
        it.wait_for_agents(*[f"a{n}" for n in range(8)])
        with top(it, width=60, height=7) as t:
            t.wait(lambda s: row_of(s, "a0") and "/8" in s, 30, "the first agents")
            t.keys("\x1b[6~" * 8)
            t.wait(lambda s: row_of(s, "a7") and not row_of(s, "a0"), 30, "the last ones")
            t.keys("\x1bOA")
            t.wait(lambda s: not row_of(s, "a7"), 30, "one line up")
            t.keys("g")
            t.wait(lambda s: row_of(s, "a0"), 30, "the first ones again")
            t.keys("q")
            assert t.ended() == 0
            left_clean(t)


def test_signals_leave_the_terminal_as_it_was(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        for end in ("\x03", signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with top(it) as t:
                t.wait(lambda s: "idle" in s, 30, "the agent")
                assert not t.restored(), "keys are not taken at once"
                t.keys(end) if isinstance(end, str) else t.process.send_signal(end)
                assert t.ended() == 0, end
                left_clean(t)
        # A controller that hangs does not hold up the end.
        with top(it) as t:
            t.wait(lambda s: "idle" in s, 30, "the agent")
            it.serve.send_signal(signal.SIGSTOP)
            t.keys("q")
            assert t.ended(10) == 0
            left_clean(t)
            it.serve.send_signal(signal.SIGCONT)


def test_a_terminal_that_is_closed_ends_it(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        with top(it) as t:
            t.wait(lambda s: "idle" in s, 30, "the agent")
            os.close(t.master)
            os.close(t.slave)
            t.master = t.slave = -1
            t.process.wait(timeout=20)


def test_terminals_of_every_kind(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        it.submit(campaign(place, "db"))
        for term in ("xterm", "xterm-256color", "screen", "linux", "vt100"):
            with top(it, term=term, locale="C") as t:
                shown = t.wait(lambda s: measures("a1")(s) and re.search(r"^ +[.:=+*#@-]{2,}$", s, re.M), 60, f"a screen of {term}")
                assert all(byte < 0x80 for byte in t.raw), (term, shown)
                assert s_fits(shown, 80) and len(shown.splitlines()) == 24, (term, shown)
                t.keys("q")
                assert t.ended() == 0, term
                left_clean(t)
        # The console's font lacks the blocks, whatever the locale.
        with top(it, term="linux") as t:
            t.wait(measures("a1"), 30, "a screen")
            assert all(byte < 0x80 for byte in t.raw)
            t.keys("q")
            assert t.ended() == 0


def test_a_lost_controller_is_waited_for(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        with top(it) as t:
            t.wait(lambda s: "idle" in s, 30, "the agent")
            it.kill()
            t.wait(lambda s: "controller lost for 0:" in s and not row_of(s, "a1"), 30, "that it is lost")
            it.start()
            it.agent("b1")
            t.wait(lambda s: row_of(s, "b1") and "lost" not in s, 60, "the new agent")
            t.keys("q")
            assert t.ended() == 0
            left_clean(t)


def test_between_runs_the_queue_is_shown(place):
    with serving(place) as it:
        it.agent("a1", "--label", "rack=a")
        it.wait_for_agents("a1")
        with top(it) as t:
            t.wait(lambda s: "no run waits" in s and row_of(s, "a1")[1:2] == ["idle"], 30, "an idle controller")
            waiting = it.submit(campaign(place, "w", match="rack: b"), "--agents", "1")
            t.wait(lambda s: f"run {waiting}" in s and "agents: 0 of the 1 that match rack=b are there" in s, 30, "the queue")
            # A run that begins is followed by itself, and another after it.
            for name in ("one", "two"):
                run = it.submit(campaign(place, name, "6s", "rack: a"))
                t.wait(lambda s: f"run {run}  step 1/1" in s and measures("a1")(s), 60, f"run {name}")
                t.wait(lambda s: f"run {run}" in s and re.search(r"ended 0:\d\d ago: complete", s), 60, "its end")
            t.keys("q")
            assert t.ended() == 0
        with top(it, waiting[:20]) as t:
            t.wait(lambda s: re.search(f"run {waiting}\\s+waits for agents: 0", s) and "no run waits" not in s, 30, "a run by name")
            t.keys("q")
            assert t.ended() == 0


def test_errors_are_typed(place):
    with serving(place) as it:
        done = it.ask("top")
        assert done.code == 2 and "[NOT_A_TERMINAL]" in done.err and "muster watch" in done.err and not done.out, done
        for args, term, code, exit_code in ((["none"], "xterm", "RUN_UNKNOWN", 2), ([], "no-such-term", "TERMINAL_UNSUITABLE", 2),
                                            ([], "dumb", "TERMINAL_UNSUITABLE", 2)):
            with top(it, *args, term=term) as t:
                assert t.ended() == exit_code, t.raw
                assert f"[{code}]".encode() in t.raw, t.raw
                assert t.restored() and b"\x1b[?1049h" not in t.raw, t.raw
    with Terminal([MUSTER, "top", "--controller", "unix:" + os.path.join(place.path, "nobody.sock")]) as t:
        assert t.ended() == 3 and b"[CONTROLLER_NOT_THERE]" in t.raw and t.restored(), t.raw
    script = subprocess.run([MUSTER, "completion", "bash"], capture_output=True, text=True).stdout
    assert '"muster top")' in script, script[:2000]
    assert "Keys: q or Ctrl-C quit" in muster("top", "--help").out


if __name__ == "__main__":
    main(globals())
