"""Every way an iSCSI target can refuse has its own typed error, in the user's words, and no secret is ever told."""
import os
import sqlite3

from harness import finish, main, muster, read_events, run, start, tmpfs
from tgtd import IQN, MIB, Proxy, Tgtd, campaign, check_sums, disk, free_port, kind, outcomes

READS = "workload: {size: 8MiB}, measure: {warmup: 0s, window: 1s}"
WRITES = "workload: {read: 0%, size: 8MiB}, measure: {warmup: 0s, window: 1s}"
SECRET = "open-sesame-4711"
WRONG = "close-sesame-0815"


def refusal(place, target, code, *named, step=READS, exit_code=3, **more):
    done = run(place, place.campaign(campaign(target, step, chap=more.pop("chap", ""))), timeout=60, **more)
    assert done.code == exit_code, done
    if exit_code == 3:
        error = done.result()["error"]
        assert error["code"] == code, (code, error)
        said = " ".join((error["place"], error["message"]))
        assert error["next"], error
    else:  # the campaign itself: told on standard error or in an event, nothing has run
        said = done.out + done.err
        assert code in said, (code, done)
    for text in named:
        assert text in said, (text, said)
    assert done.seconds < 30, done
    return done


def test_what_the_target_refuses(place):
    with Tgtd(place) as silent, Tgtd(place) as tgtd:
        # Takes a while, so it goes on beside the others.
        silent.lun(silent.target())
        silent.pause()
        waiting = start("run", place.file("silent.yaml", campaign(disk(silent), READS)), "--runs", place.runs, "--json")
        tid = tgtd.target()
        tgtd.lun(tid, 1, 16 * MIB)
        tgtd.lun(tid, 2, 16 * MIB, read_only=True)
        tgtd.lun(tid, 3, 16 * MIB, block=4096)
        tgtd.lun(tgtd.target("acl", initiator=f"{IQN}:somebody-else"))
        tgtd.lun(tgtd.target("closed", allow="192.0.2.1"))
        tgtd.lun(tgtd.target("digest", HeaderDigest="CRC32C"))
        portal, name = tgtd.portal, f"{IQN}:disk"
        refusal(place, disk(tgtd, name="acl"), "ISCSI_NO_TARGET", portal, f"{IQN}:acl")
        refusal(place, disk(tgtd, name="closed"), "ISCSI_NO_TARGET", portal, f"{IQN}:closed")
        refusal(place, disk(tgtd, name="nobody"), "ISCSI_NO_TARGET", portal, f"{IQN}:nobody")
        refusal(place, disk(tgtd, "9"), "ISCSI_NO_LUN", portal, name, "LUN 9")
        refusal(place, disk(tgtd, "[1, 9]"), "ISCSI_NO_LUN", portal, name, "LUN 9")
        refusal(place, disk(tgtd, "0"), "ISCSI_NO_LUN", portal, name, "LUN 0")  # the controller is no disk
        for step in (WRITES, READS):
            refusal(place, disk(tgtd), "TARGET_TOO_SMALL", portal, name, "LUN 1", str(17 * MIB),
                    step=step.replace("8MiB", "17MiB"))
        refusal(place, disk(tgtd, "2"), "TARGET_READ_ONLY", portal, name, "LUN 2", step=WRITES)
        done = run(place, place.campaign(campaign(disk(tgtd, "2"), READS)))
        assert done.code == 0 and outcomes(done.steps()[0])["errors"] == "pass", done
        small = run(place, place.campaign(campaign(disk(tgtd, "3"), READS.replace("size", "block: 512B, size"))))
        error = small.result()["error"]
        assert small.code == 3 and "LUN 3" in error["place"] and "4096" in error["message"], small
        assert run(place, place.campaign(campaign(disk(tgtd, "3"), WRITES))).code == 0
        done = run(place, place.campaign(campaign(disk(tgtd, name="digest", more=", header_digest: crc32c"), WRITES)))
        assert done.code == 0, done
        check_sums(done.steps()[0])
        assert any(f["name"].endswith("HeaderDigest") and f["value"] == "CRC32C" for f in done.steps()[0]["facts"])
        refusal(place, disk(tgtd, more=", header_digest: crc32c"), "ISCSI_DIGEST", portal, name)
        refusal(place, disk(tgtd, more=", source: 192.0.2.77"), "ISCSI_BIND", portal, "192.0.2.77")
        assert run(place, place.campaign(campaign(disk(tgtd, more=", source: [127.0.0.8, 127.0.0.9]"), READS))).code == 0
        assert tgtd.sessions()[name] == [], "refused or not, no session is left"
        error = finish(waiting, 30).result()["error"]
        assert error["code"] == "ISCSI_CONNECT" and silent.portal in error["place"] and "not answered" in error["message"], error


class Nobody:
    portal = f"127.0.0.1:{free_port()}"


def test_nobody_listens(place):
    refusal(place, disk(Nobody), "ISCSI_CONNECT", Nobody.portal, f"{IQN}:disk")
    Nobody.portal = "no-such-host.invalid"
    refusal(place, disk(Nobody), "ISCSI_RESOLVE", "no-such-host.invalid", f"{IQN}:disk")


class Anywhere:
    portal = "127.0.0.1:3260"


def test_campaigns_that_cannot_be(place):
    for target, code, named in (
            (disk(Anywhere, more=", data_digest: crc32c"), "", "libiscsi"),
            (disk(Anywhere, "x"), "", ":4:"), (disk(Anywhere, '"-1"'), "", ":4:"), (disk(Anywhere, "5..2"), "", ":4:"),
            (disk(Anywhere, "1..70000"), "", ":4:"), (disk(Anywhere, "[1, 1]"), "", "LUN 1 is named twice"),
            *((f'portal: "{portal}", iqn: "{IQN}:disk"', "INVALID_FIELD", ":4:")
              for portal in ("", ":3260", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:", "a b", "[::1", "[]:3260")),
            (disk(Anywhere, "1..2..3"), "", ":4:"), (disk(Anywhere, "[]"), "", ":4:"),
            (disk(Anywhere, more=", connections: 0"), "", ":4:"), (disk(Anywhere, more=", connections: many"), "", ":4:"),
            (disk(Anywhere, more=", initiator: same-for-all"), "CONTRADICTION", "{initiator}"),
            (disk(Anywhere, more=", driver: kernel"), "", "driver"),
            (disk(Anywhere, "1..2", more=", overwrite: {id: x, size: 1GiB}"), "CONTRADICTION", "overwrite")):
        done = refusal(place, target, code, named, exit_code=2)
        assert "UNKNOWN_TARGET" not in done.err, "one mistake is told once"
        planned = muster("plan", place.campaign(campaign(target, READS)))
        assert planned.code == 2 and named in planned.out + planned.err, (target, planned)
        assert not os.path.exists(place.runs) or not os.listdir(place.runs), done


def everything_written(place):
    """All text and bytes that runs left below the place, and the cells of their stores."""
    for root, _, names in os.walk(place.path):
        for name in names:
            path = os.path.join(root, name)
            if "tgtd-" in root or name == "secret":
                continue
            with open(path, "rb") as f:
                yield path, f.read()
            if name == "run.db":
                with sqlite3.connect(path) as db:
                    for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
                        for row in db.execute(f'select * from "{table}"'):
                            yield f"{path} {table}", b" ".join(c if isinstance(c, bytes) else str(c).encode() for c in row)


def test_chap_and_its_secrets(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        tgtd.lun(tid)
        tgtd.chap(tid, "alice", SECRET)
        tgtd.chap(tid, "target-itself", WRONG, outgoing=True)
        file = place.file("secret", SECRET + "\n")
        env = {**os.environ, "GOOD": SECRET, "BAD": WRONG, "EMPTY": ""}
        told = []

        def chap(secret, user="alice", more=""):
            return f", chap: {{user: {user}, secret: {secret}{more}}}"
        where = (tgtd.portal, f"{IQN}:disk")
        for given, named in (("", ()), (chap("{env: BAD}"), ("alice",)), (chap("{env: GOOD}", user="bob"), ("bob",)),
                             (chap("{env: GOOD}", more=", mutual_user: target-itself, mutual_secret: {env: GOOD}"), ())):
            told.append(refusal(place, disk(tgtd), "ISCSI_LOGIN_AUTH", *where, *named, chap=given, env=env))
        for given, named in ((chap("{env: UNSET_BY_ALL}"), "UNSET_BY_ALL"),
                             (chap("{file: /no/such/secret}"), "/no/such/secret"), (chap("{env: EMPTY}"), "EMPTY"), (chap(f"{{file: {place.path}}}"), place.path)):
            told.append(refusal(place, disk(tgtd), "SECRET_MISSING", named, chap=given, env=env, exit_code=2))
        # A secret that stands in the campaign is refused, and not repeated in the refusal.
        for given in (f"{{value: {SECRET}}}", SECRET, f"[{SECRET}]"):
            told.append(refusal(place, disk(tgtd), "SECRET_IN_CAMPAIGN", ":4:", chap=chap(given), env=env, exit_code=2))
            os.remove(os.path.join(place.path, "campaign.yaml"))  # which holds it
        for given in (chap("{env: GOOD}"), chap(f"{{file: {file}}}"),
                      chap("{env: GOOD}", more=", mutual_user: target-itself, mutual_secret: {env: BAD}")):
            text = place.campaign(campaign(disk(tgtd), WRITES, initiators=3, chap=given))
            told.append(muster("plan", text, env=env))
            assert told[-1].code == 0, told[-1]
            told.append(run(place, text, "--local", "2", env=env))
            assert told[-1].code == 0, told[-1]
        told.append(muster("run", text, "--runs", place.runs, env=env))  # its text and its live view
        for form in ("json", "csv"):
            told.append(muster("results", "--runs", place.runs, "export", "last", "--format", form))
            assert told[-1].code == 0, told[-1]
        told.append(muster("results", "--runs", place.runs, "show", "last"))
        for done in told:
            for secret in (SECRET, WRONG):
                assert secret not in done.out + done.err, done
        for path, data in everything_written(place):
            for secret in (SECRET, WRONG):
                assert secret.encode() not in data, path


def test_portals_and_names_of_single_initiators(place):
    with Tgtd(place) as tgtd:
        tgtd.lun(tgtd.target())
        tgtd.lun(tgtd.target("first-only", initiator="iqn.2026-11.net.muster:initiator-0"))
        # What the first initiator's login does not show is found before anything is measured.
        dead = f"127.0.0.1:{free_port()}"
        for target, code, named in ((f'portal: ["{tgtd.portal}", "{dead}"], iqn: "{IQN}:disk", lun: 1', "ISCSI_CONNECT", dead),
                                    (disk(tgtd, name="first-only"), "ISCSI_NO_TARGET", "initiator-1")):
            done = run(place, place.campaign(campaign(target, READS, initiators=2)), "--local", "2")
            error = done.result()["error"]
            assert done.code == 3 and error["code"] == code and named in error["place"] + error["message"], done
        with Proxy(tgtd.port) as proxy:
            both = f'portal: ["{tgtd.portal}", "{proxy.portal}"], iqn: "{IQN}:disk", lun: 1'
            done = run(place, place.campaign(campaign(both, READS, initiators=4)), "--local", "2")
            assert done.code == 0 and proxy.accepted == 2, (proxy.accepted, done)


def test_full_backing_store(place):
    with tmpfs(place, "24m") as mount, Tgtd(place) as tgtd:
        image = os.path.join(mount, "disk.img")
        with open(image, "wb") as f:
            f.truncate(64 * MIB)
        tgtd.lun(tgtd.target(), path=image)
        done = run(place, place.campaign(campaign(disk(tgtd), WRITES.replace("8MiB", "60MiB") + ", precondition: {fill: 1x}")))
        error = done.result()["error"]
        assert done.code == 3 and error["code"] in ("FILL_WRITE_FAILED", "NO_SPACE"), done
        assert "offset" in error["place"] and "MEDIUM ERROR" in error["message"], error  # what tgtd makes of ENOSPC


def test_target_that_goes_between_steps(place):
    with Tgtd(place) as tgtd:
        tgtd.lun(tgtd.target())
        text = campaign(disk(tgtd), READS, extra="op_timeout: 3s")
        text = text.replace("steps: [", "steps: [" + "{name: first, target: d, " + READS + "}, ")
        process = start("run", place.campaign(text), "--runs", place.runs, "--json")
        read_events(process, lambda e: e["event"] == "live")
        tgtd.kill()
        done = finish(process, 60)
        steps = done.steps()
        assert done.code == 3 and done.result()["error"]["code"] == "ISCSI_CONNECT", done
        assert steps[1]["outcome"] == "FAILED" and kind_or_none(steps[1]) == 0, steps[1]


def kind_or_none(step):
    return kind(step["fleet"])["completed"] if step["fleet"]["kinds"] else 0


if __name__ == "__main__":
    main(globals())
