"""The systemd units: systemd understands them, and the programs know the options in them."""
import os
import re
import shutil
import subprocess

from harness import AGENT, BIN, MUSTER, SOURCE, Skip, check_run, main

UNITS = os.path.join(SOURCE, "deploy", "systemd")


def test_systemd_takes_the_units(place):
    if shutil.which("systemd-analyze") is None:
        raise Skip("there is no systemd-analyze")
    copies = []
    for name in sorted(os.listdir(UNITS)):
        with open(os.path.join(UNITS, name), encoding="utf-8") as f:
            # The programs are not installed here.
            copies.append(place.file(name, f.read().replace("/usr/bin/", BIN + "/")))
    assert len(copies) == 2
    done = subprocess.run(["systemd-analyze", "verify", *copies], capture_output=True, text=True, timeout=60)
    ours = [line for line in done.stderr.splitlines() if "muster" in line]
    assert done.returncode == 0 and not ours, done.stderr


def test_the_programs_know_the_options_of_the_units(place):
    for name, helped in (("muster-serve", check_run(MUSTER, "serve", "--help")), ("muster-agent", check_run(AGENT, "--help"))):
        with open(os.path.join(UNITS, name + ".service"), encoding="utf-8") as f:
            text = f.read()
        for line in re.findall(r"^(?:ExecStart=|#   MUSTER_AGENT_OPTIONS=).*$", text, re.M):
            for option in re.findall(r"--[a-z-]+", line):
                assert option in helped, (name, option)


if __name__ == "__main__":
    main(globals())
