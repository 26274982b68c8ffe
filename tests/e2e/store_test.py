"""Run files after what should not happen: a killed controller, a full disk, rows and bytes that are gone or changed."""
import contextlib
import errno
import json
import os
import sqlite3

from failure_test import NULL, begin
from harness import finish, main, muster, read_events, run, start, tmpfs


def show_step_cut_off(runs, name="one"):
    """Every form of a run whose only step was not sealed: the step is there, INTERRUPTED, with the same figures."""
    shown = muster("results", "--runs", runs, "show", "last")
    assert shown.code == 0 and f"== {name}: INTERRUPTED" in shown.out, shown
    assert "not checked against totals" in shown.out and "VALID" not in shown.out, shown
    document = json.loads(muster("results", "--runs", runs, "export", "last", "--format", "json").out)
    assert document["run"]["unsealed"] == [name], document["run"]
    step, = document["steps"]
    assert step["outcome"] == "INTERRUPTED" and step["sealed"] is False, step
    window = [i for i in step["intervals"] if i["in_window"]]
    completed = step["fleet"]["kinds"][0]["completed"]
    assert len(window) == step["window"]["intervals"] >= 2, step["window"]
    assert completed == sum(k["completed"] for i in window for k in i["kinds"]) > 0, completed
    assert step["fleet"]["kinds"][0]["response"]["count"] == completed
    assert completed == sum(g["kinds"][0]["completed"] for g in step["initiators"])
    for line in muster("results", "--runs", runs, "export", "last", "--format", "csv").out.splitlines()[1:]:
        assert ",INTERRUPTED," in line, line
    hlog = muster("results", "--runs", runs, "export", "last", "--format", "hlog").out
    assert f"Tag={name}/unsealed/read" in hlog and "INTERRUPTED" in hlog, hlog[:500]
    return step


def test_run_file_survives_a_killed_controller(place):
    process = begin(place, NULL % "120s", "--local", "2")
    seen = read_events(process, lambda e: e["event"] == "live" and e["interval"] >= 4)
    process.kill()
    process.communicate()
    listed = muster("results", "--runs", place.runs, "list")
    assert listed.code == 0 and "calibrate" in listed.out and "interrupted" in listed.out, listed
    assert "ended without closing the run; last committed" in listed.out and "unsealed: one" in listed.out, listed
    step = show_step_cut_off(place.runs)
    # What was shown live was committed or on its way to the disk.
    assert len(step["intervals"]) >= seen[-1]["interval"] - 1, (len(step["intervals"]), seen[-1])


def test_store_filled_in_mid_step_keeps_what_was_committed_and_why(place):
    # More than the 64 MiB that are to stay free before a step, so that it begins.
    with tmpfs(place, "112m") as mount:
        runs = os.path.join(mount, "runs")
        process = start("run", place.campaign(NULL % "600s"), "--runs", runs, "--json", "--local", "2")
        read_events(process, lambda e: e["event"] == "live" and e["interval"] >= 4)
        with open(os.path.join(mount, "ballast"), "wb", buffering=0) as ballast:
            try:
                while ballast.write(b"b" * 4096) == 4096:
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
        done = finish(process, 60)
        assert done.code == 3 and "STORE_FULL" in done.out + done.err, done
        listed = muster("results", "--runs", runs, "list")
        assert "failed" in listed.out and "STORE_FULL" in listed.out and "unsealed: one" in listed.out, listed
        show_step_cut_off(runs)


def test_store_on_a_full_disk(place):
    with tmpfs(place, "8m") as mount:
        done = muster("run", place.campaign(NULL % "2s"), "--runs", os.path.join(mount, "runs"), "--json")
        assert done.code == 3, done
        assert "STORE_FULL" in done.out + done.err, done


def test_a_damaged_run_file_shows_nothing_as_valid(place):
    assert run(place, place.campaign(NULL % "2s"), "--local", "2").code == 0
    path = os.path.join(place.runs, os.listdir(place.runs)[0], "run.db")
    assert "VALID" in muster("results", "--runs", place.runs, "show", "last").out
    with open(path, "rb") as file:
        whole = file.read()
    cases = [f"DELETE FROM {t}" for t in ("plan", "agents", "intervals", "interval_counts", "results", "groups", "sealed", "tally")]
    cases += ["DELETE FROM intervals WHERE k=2", "DELETE FROM groups WHERE n=1", "UPDATE results SET outcome='INVALID'",
              "UPDATE groups SET record=substr(record, 1, 40)", "UPDATE intervals SET fleet=zeroblob(50) WHERE k=1"]
    for sql in cases:
        with open(path, "wb") as file:
            file.write(whole)
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(sql)
            db.commit()
        for verb in (("show", path), ("show", path, "--json"), ("export", path, "--format", "csv"),
                     ("export", path, "--format", "json"), ("export", path, "--format", "hlog"),
                     ("export", path, "--format", "csv", "--intervals")):
            done = muster("results", *verb)
            assert done.code == 3 and "RUN_DAMAGED" in done.out + done.err, (sql, verb, done)
            assert path in done.out + done.err and "table " in done.out + done.err, (sql, verb, done)
            assert '"VALID"' not in done.out and ",VALID," not in done.out and " VALID" not in done.out, (sql, verb, done)


def row_hash(row):
    """As the run file counts its rows (controller/store/sqlite.cc), for a row that is broken and counted all the same."""
    def word(h, w):
        h = ((h ^ w) * 0x100000001b3) & (2**64 - 1)
        return h ^ (h >> 32)
    h = 0xcbf29ce484222325
    for value in row:
        raw = value.encode() if isinstance(value, str) else value
        h = word(word(h, 3 if isinstance(value, str) else 4), len(raw))
        for at in range(0, len(raw), 8):
            h = word(h, int.from_bytes(raw[at:at + 8], "little"))
    return h - 2**64 if h >= 2**63 else h


def test_the_parser_does_not_speak_for_itself(place):
    assert run(place, place.campaign(NULL % "1s")).code == 0
    path = os.path.join(place.runs, os.listdir(place.runs)[0], "run.db")
    with contextlib.closing(sqlite3.connect(path)) as db:
        before = db.execute("SELECT id, record FROM agents").fetchall()
        assert len(before) == 1 and db.execute("SELECT n, digest FROM tally WHERE tab='agents'").fetchall() == [(1, row_hash(before[0]))]
        record = b"\x0a\x02\xff\xfe"  # a string that is not UTF-8
        db.execute("UPDATE agents SET record=?", (record,))
        db.execute("UPDATE tally SET digest=? WHERE tab='agents'", (row_hash((before[0][0], record)),))
        db.commit()
    done = muster("results", "show", path)
    assert done.code == 3 and "RUN_DAMAGED" in done.err and path in done.err and "protobuf" not in done.err, done
    told = muster("--log-level", "debug", "results", "show", path)
    assert told.code == 3 and "protobuf: " in told.err and "libprotobuf" not in told.err, told


def test_a_broken_run_file_gives_one_typed_error(place):
    assert run(place, place.campaign(NULL % "1s")).code == 0
    path = os.path.join(place.runs, os.listdir(place.runs)[0], "run.db")
    with open(path, "rb") as file:
        whole = file.read()
    for size in (len(whole) // 2, len(whole) - 8192, 100, 0):
        with open(path, "wb") as file:
            file.write(whole[:size])
        done = muster("results", "show", path)
        assert done.code == 3 and "RUN_DAMAGED" in done.err and done.out == "", (size, done)
        assert len(done.err.splitlines()) <= 2 and "protobuf" not in done.err, (size, done)
    # Bytes changed in place: pages of records, one after another.
    for at in range(8192 * 3, len(whole) - 64, 8192):
        with open(path, "wb") as file:
            file.write(whole[:at + 4000] + b"\xff" * 64 + whole[at + 4064:])
        done = muster("results", "show", path)
        assert "protobuf" not in done.err, (at, done)
        assert done.code == 0 or "RUN_DAMAGED" in done.err, (at, done)
        assert done.code in (0, 3), (at, done)


if __name__ == "__main__":
    main(globals())
