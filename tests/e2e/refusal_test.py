"""What comes over the network and is refused: each with a reason in the log and, where gRPC tells it, the peer's address.
A run goes on meanwhile and does not notice."""
import contextlib
import os
import re
import socket
import ssl
import struct
import subprocess
import threading

from h2_client import PREFACE, H2Client, field
from harness import AGENT, MUSTER, SOURCE, finish, main, read_events, wait_for
from link_test import check
from tls_test import fleet

CAMPAIGN = """
name: goes-on
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: 2}
steps: [{name: one, target: cal, workload: {size: 1GiB}, load: 1T2Q, measure: {warmup: 1s, window: %s}}]
"""
CONTROL = "/muster.v1.AgentLink/Control"


@contextlib.contextmanager
def going_on(place, window):
    """A fleet over mutual TLS with a run that measures, and must end VALID whatever has been done to the port."""
    with fleet(place) as it:
        it.agent("a1")
        it.agent("a2")
        wait_for(lambda: it.there() == {"a1", "a2"}, 30, "two agents")
        made = subprocess.run([os.path.join(SOURCE, "deploy", "make-certs.sh"), it.certs, "--agent", "x"], capture_output=True, text=True)
        assert made.returncode == 0, made
        run = subprocess.Popen(command_of(it, place, window), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        read_events(run, lambda e: e["event"] == "live")
        yield it
        assert run.poll() is None, "the run had ended before all was tried"
        done = finish(run, 90)
        step = done.steps()[0]
        assert done.code == 0 and step["outcome"] == "VALID", done
        for name in ("sums", "coverage", "intervals", "errors"):
            assert check(step, name)["outcome"] == "pass", step["checks"]


def command_of(it, place, window):
    return [MUSTER, "run", place.campaign(CAMPAIGN % window), "--json", "--controller", it.address, *it.files("user-alice")]


def context(certs, name, ca=None):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(os.path.join(ca or certs, "ca.crt"))
    if name:
        made.load_cert_chain(os.path.join(certs, name + ".crt"), os.path.join(certs, name + ".key"))
    made.set_alpn_protocols(["h2"])
    return made


def lines(it):
    with open(it.log, encoding="utf-8") as f:
        return f.read().splitlines()


def logged(it, before, pattern):
    """The first line after the first `before` lines that the pattern is found in."""
    def there():
        return next((line for line in lines(it)[before:] if re.search(pattern, line)), None)
    line = wait_for(there, 30, f"line with {pattern!r} in the log")
    assert " warning " in line, line
    return line


def test_strangers(place):
    with going_on(place, "14s") as it:
        host, port = it.address.split(":")
        # Plain text: HTTP/1, HTTP/2 as gRPC without TLS begins it, nothing at all, and an end in the middle.
        for data, reason in ((b"GET / HTTP/1.1\r\n\r\n", "http request"), (PREFACE, "wrong version number"),
                             (b"", r"ipv4:127\.0\.0\.1:\d+ refused: Handshake read failed"),
                             (b"\x16\x03\x01", r"ipv4:127\.0\.0\.1:\d+ refused: Handshake read failed")):
            before = len(lines(it))
            with socket.create_connection((host, int(port)), timeout=30) as plain:
                plain.sendall(data)
                if len(data) > 5:
                    with contextlib.suppress(ConnectionResetError):
                        while plain.recv(4096):
                            pass
            logged(it, before, r"connection.* refused: .*" + reason if "refused" not in reason else reason)

        # A certificate of another authority, one that has expired.
        others = os.path.join(place.path, "others")
        assert subprocess.run([os.path.join(SOURCE, "deploy", "make-certs.sh"), others, "--agent", "a1"], capture_output=True).returncode == 0
        at = lambda file: os.path.join(it.certs, file)
        place.file("ext", "extendedKeyUsage=clientAuth\nsubjectAltName=URI:muster://agent/old\n")
        subprocess.run(["cp", at("agent-x.key"), at("agent-old.key")], check=True)
        subprocess.run(["openssl", "req", "-new", "-key", at("agent-old.key"), "-subj", "/CN=old", "-out", at("csr")], check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", at("csr"), "-CA", at("ca.crt"), "-CAkey", at("ca.key"), "-set_serial", "77", "-days", "-1",
                        "-extfile", os.path.join(place.path, "ext"), "-out", at("agent-old.crt")], check=True, capture_output=True)
        for certs, name in ((others, "agent-a1"), (it.certs, "agent-old")):
            before = len(lines(it))
            with contextlib.suppress(OSError), H2Client(it.address, context(certs, name, it.certs)) as h2:
                h2.until_ended(20)
            logged(it, before, "connection.* refused: .*certificate verify failed")

        # No certificate, a method that is in no table, a role that may not.
        for name, method, reason in ((None, CONTROL, "CERTIFICATE_NEEDED"), ("user-alice", "/muster.v1.AgentLink/Nothing", "METHOD_UNLISTED"),
                                     ("user-bob", "/muster.v1.ControllerApi/SubmitRun", "viewer bob may not"),
                                     ("agent-x", "/muster.v1.ControllerApi/ListRuns", "agent x may not")):
            before = len(lines(it))
            with H2Client(it.address, context(it.certs, name)) as h2:
                h2.call(method)
                assert h2.until_ended(20)
            line = logged(it, before, reason)
            assert "call refused: " + method in line, line


def hello(agent):
    return field(1, field(1, 1) + field(2, 99) + field(3, "0.1.0") + field(5, agent) + b"\x31" + struct.pack("<Q", 7) + field(8, "b") + field(11, "h"))


def beat(seq):
    return field(2, field(1, seq) + field(2, seq))


def memory(pid, name):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name)) << 10


def test_messages_that_are_too_much(place):
    with going_on(place, "24s") as it:
        known = context(it.certs, "agent-x")
        # A gigabyte, and one that is just too large: neither is taken in, and nobody else is ended for it.
        for size in (1 << 30, 40 << 20):
            before = len(lines(it))
            with H2Client(it.address, known) as h2:
                h2.call(CONTROL)
                sent = h2.message(size)
                assert h2.ended or h2.until_ended(20), f"a message of {size} bytes was taken"
                line = logged(it, before, "MESSAGE_TOO_LARGE")
                # By the size that it states when all of it is there, or by what has come of it.
                assert f"connection of ipv4:{h2.name} refused: " in line or f"a message of {size} bytes is beyond the limit of {16 << 20}" in line, line
                logged(it, before, f"link of ipv4:{h2.name} refused: ")
            if size == 1 << 30:
                peak = memory(it.serve.pid, "VmHWM")
                print(f"        {sent >> 20} MiB of a gigabyte went out; the controller had {peak >> 20} MiB at most", flush=True)
                assert "connection of" in line and sent < size and peak < 768 << 20, (line, sent, peak)
        assert not [line for line in lines(it) if "LINK_BROKEN" in line], "links of others were ended"
        # One that never reads: its answers pile up, as far as they may.
        before = len(lines(it))
        with H2Client(it.address, known) as h2:
            h2.call(CONTROL)
            assert h2.say(hello("x"))
            for seq in range(1, 40):
                if not h2.say(*[beat(seq * 100 + i) for i in range(100)]):
                    break
            line = logged(it, before, r"LINK_STUCK|LINK_FLOODED")
            assert f"ipv4:{h2.name}" in line, line
        # Not what is to be said first, not for this agent, nonsense.
        for said, reason in (((beat(1),), "MESSAGE_OUT_OF_ORDER"), ((hello("a1"),), "AGENT_ID_CERTIFIED"), ((b"",), "MESSAGE|HELLO|FIELD")):
            before = len(lines(it))
            with H2Client(it.address, known) as h2:
                h2.call(CONTROL)
                h2.say(*said)
                assert h2.until_ended(20)
                line = logged(it, before, reason)
                assert f"link of ipv4:{h2.name} refused: " in line, line
        # Reports of a link that is not there.
        before = len(lines(it))
        with H2Client(it.address, known) as h2:
            h2.call("/muster.v1.AgentLink/Report")
            h2.say(b"\x09" + struct.pack("<Q", 1) + field(2, 1))
            line = logged(it, before, "reports of ipv4")
            assert f"reports of ipv4:{h2.name} refused: " in line, line
        # Nothing at all.
        before = len(lines(it))
        with H2Client(it.address, known) as h2:
            h2.call(CONTROL)
            assert h2.until_ended(30)
            line = logged(it, before, "GREETING_TIMEOUT")
            assert f"link of ipv4:{h2.name} refused: " in line, line


def test_an_agents_certificate_makes_no_controller(place):
    with going_on(place, "5s") as it:
        rogue = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        rogue.load_cert_chain(os.path.join(it.certs, "agent-x.crt"), os.path.join(it.certs, "agent-x.key"))
        rogue.set_alpn_protocols(["h2"])
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        with server.accept()[0] as near, contextlib.suppress(OSError), rogue.wrap_socket(near, server_side=True) as tls:
                            tls.recv(1)
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            log = os.path.join(place.path, "fooled.log")
            with open(log, "w", encoding="utf-8") as out:
                fooled = subprocess.Popen([AGENT, "--controller", f"127.0.0.1:{port}", *it.files("agent-x")], stdout=out, stderr=out)
            try:
                said = wait_for(lambda: (lambda t: t if "no link" in t else None)(open(log, encoding="utf-8").read()), 30, "the agent's reason")
                assert f"127.0.0.1:{port}" in said and re.search("certificate|handshake|Handshake", said), said
                assert "accepted" not in said and fooled.poll() is None, said
            finally:
                fooled.terminate()
                fooled.wait(20)
                server.shutdown(socket.SHUT_RDWR)
                thread.join(10)


if __name__ == "__main__":
    main(globals())
