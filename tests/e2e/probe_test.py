"""`muster targets probe` against a real tgtd: what it tells, what it refuses, that it writes nothing and shows no secret."""
import hashlib
import json
import os
import subprocess

from harness import main, muster
from tgtd import IQN as NAMES, Tgtd

IQN = f"{NAMES}:probe"
SECRET = "correct-horse-12"
MUTUAL = "battery-staple-34"


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def probe(*args, **env):
    return muster("targets", "probe", *args, env={**os.environ, **env})


def told(done):
    assert done.code in (0, 1), done
    (event,) = done.events()
    assert event["event"] == "probe" and event["read_only"] is True, event
    return event


def offer(server):
    """One target behind CHAP: a blank LUN, one with a file system, one protected, one of 4 KiB blocks with UNMAP."""
    tid = server.target("probe")
    files = {1: server.lun(tid, 1), 2: server.lun(tid, 2), 3: server.lun(tid, 3), 4: server.lun(tid, 4, block=4096)}
    server.admin("--op", "update", "--mode", "logicalunit", "--tid", tid, "--lun", 4, "--params", "thin_provisioning=1")
    server.chap(tid, "user", SECRET)
    subprocess.run(["mke2fs", "-q", "-F", "-L", "precious", files[2]], check=True, capture_output=True)
    server.admin("--op", "update", "--mode", "logicalunit", "--tid", tid, "--lun", "3", "--params", "readonly=1")
    return files


def url(server, lun=""):
    return f"iscsi://{server.portal}/{IQN}{lun}"


def test_every_lun_is_told_with_the_guards_verdict_and_nothing_is_written(place):
    with Tgtd(place) as server:
        files = offer(server)
        before = {n: digest(path) for n, path in files.items()}
        args = (url(server), "--user", "user", "--secret", "env:S")
        event = told(probe(*args, "--json", S=SECRET))
        session = event["session"]
        assert session["portal"] == server.portal and session["target"] == IQN, session
        assert session["initiator"] == "iqn.2026-11.net.muster:initiator-0" and session["authentication"] == "CHAP", session
        assert len(session["ISID"]) == 12 and session["InitialR2T"] == "No" and session["FirstBurstLength"] == "262144", session
        assert session["HeaderDigest"] == "None" and 0 < int(session["command window"]) <= 512, session
        assert "DefaultTime2Wait" in session and "ErrorRecoveryLevel" in session, session
        assert event["notes"] == ["target on the same host"], event
        assert event["luns_reported"] == 5, event
        luns = {lun["lun"]: lun for lun in event["luns"]}
        assert sorted(luns) == [0, 1, 2, 3, 4], luns
        assert not any(lun["used"] for lun in luns.values())
        assert not luns[0]["disk"] and luns[0]["refusal"]["code"] == "ISCSI_NO_LUN", luns[0]
        assert luns[1]["writable"] and luns[1]["found"] == "blank" and luns[1]["size"] == 64 << 20 and luns[1]["block"] == 512
        assert luns[1]["vendor"] == "IET" and luns[1]["write_protected"] is False and luns[1]["write_cache"] in (True, False)
        assert luns[2]["refusal"]["code"] == "TARGET_HAS_DATA" and "precious" in luns[2]["found"], luns[2]
        assert luns[3]["refusal"]["code"] == "TARGET_READ_ONLY" and luns[3]["write_protected"] is True, luns[3]
        assert luns[4]["block"] == 4096 and luns[4]["unmap"] and not luns[1]["unmap"], luns[4]
        text = probe(*args, S=SECRET)
        assert text.code == 0, text
        for words in ("read only, nothing was written", "note: target on the same host", "5 LUNs reported", "MaxBurstLength", "blank",
                      "REFUSED TARGET_HAS_DATA", "REFUSED TARGET_READ_ONLY", "precious", "serial:"):
            assert words in text.out, (words, text)
        assert SECRET not in text.out + text.err
        assert {n: digest(path) for n, path in files.items()} == before


def test_a_lun_in_the_url_is_the_one_meant_and_must_be_there(place):
    with Tgtd(place) as server:
        offer(server)
        event = told(probe(url(server, "/2"), "--user", "user", "--secret", "file:" + place.file("secret", SECRET + "\n"), "--json"))
        assert [lun["lun"] for lun in event["luns"] if lun["used"]] == [2], event
        done = probe(url(server, "/9"), "--user", "user", "--secret", "env:S", S=SECRET)
        assert done.code == 3 and "[ISCSI_NO_LUN]" in done.err and "LUN 9" in done.err, done
        assert "5 LUNs reported" in done.out, done  # what there is helps


def test_mutual_chap_header_digest_source_and_name(place):
    with Tgtd(place) as server:
        tid = server.target("probe")
        server.lun(tid, 1)
        server.chap(tid, "user", SECRET)
        server.chap(tid, "target", MUTUAL, outgoing=True)
        server.admin("--op", "update", "--mode", "target", "--tid", tid, "--name", "HeaderDigest", "--value", "CRC32C,None")
        args = (url(server), "--user", "user", "--secret", "env:S", "--mutual-user", "target", "--mutual-secret", "env:M", "--source",
                "127.0.0.9", "--initiator", "iqn.2026-11.net.muster.test:me", "--header-digest", "--json")
        session = told(probe(*args, S=SECRET, M=MUTUAL))["session"]
        assert session["authentication"] == "mutual CHAP" and session["HeaderDigest"] == "CRC32C", session
        assert session["source"].startswith("127.0.0.9:") and session["initiator"] == "iqn.2026-11.net.muster.test:me", session
        done = probe(*args, S=SECRET, M="something-else-56")
        assert done.code == 3 and done.events()[0]["error"]["code"] == "ISCSI_LOGIN_AUTH", done


def test_failures_are_typed_and_show_no_secret(place):
    with Tgtd(place) as server:
        offer(server)
        for args, env, code, error in (
                (("--user", "user", "--secret", "env:S"), {"S": "wrong-secret-123"}, 3, "ISCSI_LOGIN_AUTH"),
                ((), {}, 3, "ISCSI_LOGIN_AUTH"),
                (("--user", "user", "--secret", SECRET), {}, 2, "SECRET_ON_COMMAND_LINE"),
                (("--user", "user", "--secret", "env:S"), {}, 2, "SECRET_MISSING")):
            done = probe(url(server), *args, **env)
            assert done.code == code and f"[{error}]" in done.err, (args, done)
            for secret in (SECRET, *env.values()):
                assert secret not in done.out + done.err, (args, done)
        done = probe(f"iscsi://{server.portal}/{IQN}.none")
        assert done.code == 3 and "[ISCSI_NO_TARGET]" in done.err, done
    done = probe(f"iscsi://{server.portal}/{IQN}")
    assert done.code == 3 and "[ISCSI_CONNECT]" in done.err, done


def test_a_target_of_a_campaign(place):
    with Tgtd(place) as server:
        files = offer(server)
        campaign = place.campaign(f"""
name: probed
targets:
  luns: {{iscsi: {{portal: "{server.portal}", iqn: "{IQN}", lun: [1, 4]}}, chap: {{user: user, secret: {{env: S}}}}}}
  data: {{iscsi: {{portal: "{server.portal}", iqn: "{IQN}", lun: 2}}, chap: {{user: user, secret: {{env: S}}}}}}
  disk: {{file: {{dir: "@DIR@/files"}}}}
  none: {{null: {{}}}}
steps:
  - {{name: a, target: luns, workload: {{read: 0%, size: 16MiB}}, measure: {{warmup: 0s, window: 1s}}}}
  - {{name: b, target: data, workload: {{read: 0%, size: 16MiB}}, measure: {{warmup: 0s, window: 1s}}}}
  - {{name: c, target: disk, workload: {{size: 16MiB}}, measure: {{warmup: 0s, window: 1s}}}}
""")
        before = {n: digest(path) for n, path in files.items()}
        done = probe(campaign + ":luns", "--json", S=SECRET)
        assert done.code == 0, done
        assert [lun["lun"] for lun in told(done)["luns"] if lun["used"]] == [1, 4], done
        done = probe(campaign + ":data", "--json", S=SECRET)
        assert done.code == 1 and [lun["lun"] for lun in told(done)["luns"] if lun["used"]] == [2], done
        assert {n: digest(path) for n, path in files.items()} == before
        # No secret of another target is needed, and none of the programs makes anything.
        for name, words in (("disk", "files"), ("none", "no device")):
            done = probe(f"{campaign}:{name}")
            assert done.code == 0 and words in done.out and "nothing was written" in done.out, done
        assert not os.path.exists(os.path.join(place.path, "files"))
        done = probe(campaign + ":lunz", S=SECRET)
        assert done.code == 2 and "[UNKNOWN_TARGET]" in done.err and "luns" in done.err, done
        done = probe(campaign + ":luns", "--user", "user")
        assert done.code == 2 and "[CONTRADICTION]" in done.err, done


def test_every_portal_of_a_campaign_is_told(place):
    with Tgtd(place) as server:
        offer(server)
        dead = "127.0.0.1:9"

        def write(portals):
            return place.campaign(f"""
name: portals
targets:
  luns: {{iscsi: {{portal: {json.dumps(portals)}, iqn: "{IQN}", lun: 1}}, chap: {{user: user, secret: {{env: S}}}}}}
steps: [{{name: a, target: luns, workload: {{size: 16MiB}}, measure: {{warmup: 0s, window: 1s}}}}]
""") + ":luns"
        # The second way to the same portal shows that each gets a login of its own.
        done = probe(write([dead, server.portal, "localhost:9"]), "--json", S=SECRET)
        assert done.code == 0, done
        event = told(done)
        session = event["session"]
        assert session["portals"].startswith("1 of 3 can be used") and session["portal"] == server.portal, session
        assert "[ISCSI_CONNECT]" in session[f"portal {dead}"] and "[ISCSI_CONNECT]" in session["portal localhost:9"], session
        assert session[f"portal {server.portal}"].startswith("answers; target portal group 1"), session
        assert sorted(lun["lun"] for lun in event["luns"]) == [0, 1, 2, 3, 4], event
        done = probe(write([dead, server.portal]), S=SECRET)
        assert done.code == 0 and "CANNOT BE USED" in done.out and dead in done.out, done
        done = probe(write([dead, "localhost:9"]), S=SECRET)
        assert done.code == 3 and "[ISCSI_CONNECT]" in done.err and "none of the 2 portals" in done.err and "localhost:9" in done.err, done


def test_a_run_and_its_plan_say_that_the_target_is_on_the_same_host(place):
    with Tgtd(place) as server:
        tid = server.target("probe")
        server.lun(tid, 1)
        campaign = place.campaign(f"""
name: near
targets: {{luns: {{iscsi: {{portal: "{server.portal}", iqn: "{IQN}", lun: 1}}}}}}
steps: [{{name: a, target: luns, workload: {{size: 16MiB}}, measure: {{warmup: 0s, window: 1s}}, sweep: {{initiators: [1, 2]}}}}]
""")
        assert "note:   target on the same host" in muster("plan", campaign).out
        done = muster("run", campaign, "--runs", place.runs, "--local", "2", "-q")
        assert done.code == 0 and done.out.count("note on luns: target on the same host") == 1, done
        done = muster("results", "--runs", place.runs, "show", "--json")
        steps = json.loads(done.out)["steps"]
        assert [step["notes"] for step in steps] == [["target on the same host"]] * 2, [s["facts"][:5] for s in steps]


def test_help_and_completion_know_it(place):
    helped = muster("targets", "probe", "--help")
    for words in ("--user", "--secret", "--mutual-user", "--mutual-secret", "--initiator", "--source", "--header-digest", "--json",
                  "iscsi://", "writes nothing"):
        assert helped.code == 0 and words in helped.out, (words, helped)
    for shell in ("bash", "zsh", "fish"):
        script = muster("completion", shell).out
        assert "targets" in script and "probe" in script and "mutual-secret" in script, script


if __name__ == "__main__":
    main(globals())
