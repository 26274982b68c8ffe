"""README, --help and the metric table say the same as the programs."""
import json
import os
import re

from harness import SOURCE, check_run, main, muster, run

README = open(os.path.join(SOURCE, "README.md"), encoding="utf-8").read()


def test_every_command_in_readme_is_known(place):
    for line in re.findall(r"^    (muster .*)$", README, re.M):
        words = line.split("#")[0].split()
        verbs = [w for w in words[1:3] if re.fullmatch(r"[a-z]+", w) and w not in ("last",)]
        if len(verbs) == 2 and verbs[0] in ("run", "plan", "completion"):
            verbs = verbs[:1]
        helped = muster(*verbs, "--help")
        assert helped.code == 0, (line, helped)
        for option in re.findall(r"--[a-z-]+", line):
            assert option in helped.out, (line, option, helped.out)


def test_the_campaigns_in_readme_are_right(place):
    texts = re.findall(r"```yaml\n(.*?)```", README, re.S)
    assert len(texts) == 2
    for text, step in zip(texts, ("db-4k-70-30", "db[initiators=8]")):
        text = text.replace("/dev/disk/by-id/ID", "/dev/null")
        done = muster("plan", "--no-inspect", place.file("readme.yaml", text), env={**os.environ, "LAB_SECRET": "of-no-account"})
        assert done.code == 0 and step in done.out, done


def test_the_transcript_in_readme_is_of_this_quick_start(place):
    """Every step of the quick start's campaign has its row in the table that README shows, and nothing else has."""
    with open(os.path.join(SOURCE, "deploy", "quickstart.yaml"), encoding="utf-8") as f:
        text = f.read().replace("@DIR@", place.path).replace("@PORTAL@", "127.0.0.1:3260")
    done = muster("plan", "--no-inspect", "--json", place.file("quickstart.yaml", text),
                  env={**os.environ, "MUSTER_QUICKSTART_SECRET": "of-no-account"})
    (plan,) = done.events()
    shown = re.findall(r"^    (\S+) +(?:VALID|INVALID) ", README, re.M)
    assert shown == [step["name"] for step in plan["steps"]], (shown, done)


def test_every_folder_in_readme_exists_and_all_are_named(place):
    named = set(re.findall(r"`([a-z]+(?:/[a-z]+)?)/?`", README.split("## Where is what")[1]))
    for name in named - {"run.sh"}:
        if "/" in name or os.path.isdir(os.path.join(SOURCE, name)):
            assert os.path.isdir(os.path.join(SOURCE, name)), name
    for top in ("common", "agent", "controller"):
        for folder in os.listdir(os.path.join(SOURCE, top)):
            if os.path.isdir(os.path.join(SOURCE, top, folder)) and folder != "cmake":
                assert f"{top}/{folder}" in named, f"{top}/{folder} is missing in README"


def test_figures_of_readme_are_those_of_the_export(place):
    done = run(place, place.campaign("""
name: cal
targets: {cal: {null: {latency: {mean: 1ms}}}}
steps: [{name: one, target: cal, workload: {size: 1MiB}, measure: {warmup: 1s, window: 1s}}]
"""))
    assert done.code == 0, done
    step = done.steps()[0]
    table = README.split("## Figures")[1].split("## Speed")[0]
    every = step["fleet"]["kinds"][0]
    keys = {"IOPS": every["iops"], "bandwidth": every["bytes_per_second"], "response": every["response"], "wait": every["wait"],
            "service": every["service"], "asked depth": step["fleet"]["asked_depth"], "achieved depth": step["fleet"]["achieved_depth"],
            "on-the-wire depth": step["fleet"]["wire_depth"], "start skew": step["start_skew_ns"], "clock error": step["clock_error_ns"],
            "stamp error": step["stamp_error_ns"], "hiccup": step["hiccup"], "time full": step["fleet"]["time_full_share"],
            "lateness": step["fleet"]["lateness"]}
    for name in keys:
        assert name in table, name
    for percentile in re.search(r"\| (p50[^|]*) \|", table).group(1).split(", "):
        assert f"{percentile}_ns" in every["response"]["percentiles"], (percentile, json.dumps(every["response"])[:500])


def test_exit_codes_are_in_help(place):
    helped = muster("--help").out
    for text in ("0 ok", "1 a verdict failed", "2 usage", "3 infrastructure"):
        assert text in helped and text.split(" ", 1)[1][:8] in README, text


if __name__ == "__main__":
    main(globals())
