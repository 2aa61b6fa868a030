"""redis-py against the door: handshakes of both protocols, pipelines, a reconnect."""

import signal
import sys

import redis

signal.alarm(60)
port = int(sys.argv[1])

for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, client_name=f"py-{protocol}")
    assert client.ping() is True
    assert client.echo("hello") == b"hello"
    assert client.client_getname() in (f"py-{protocol}", f"py-{protocol}".encode())
    assert client.info()["loading"] == 0
    key = f"py:{protocol}"
    assert client.execute_command("CL.THROTTLE", key, 1, 30, 60) == [0, 2, 1, -1, 2]
    assert client.execute_command("CL.THROTTLE", b"\x00\xff\r\n", 1, 30, 60)[0] == 0
    assert client.execute_command("THROTTLE", key, 2, 30, 60) == [1, 2, 1, 2, 0]

    pipeline = client.pipeline(transaction=False)
    for _ in range(100):
        pipeline.execute_command("CL.THROTTLE", f"pipe:{protocol}", 49, 50, 60)
    replies = pipeline.execute()
    assert [reply[0] for reply in replies] == [0] * 50 + [1] * 50, replies
    assert [reply[2] for reply in replies[:50]] == list(range(49, -1, -1))

    check = client.execute_command("TIDEGATE.CHECK", "ATTRIBUTE", "user", key)
    if protocol == 2:
        check = dict(zip(check[::2], check[1::2]))
    assert check[b"verdict"] == b"allow", check
    assert check[b"limit"] == 2 and check[b"retry_after_us"] is None, check

    for wrong, told in (
        (("CL.THROTTLE", key), "wrong number of arguments for 'cl.throttle' command"),
        (("CL.THROTTLE", key, "x", 1, 1), "max_burst must be a whole number"),
        (("GET", key), "unknown command"),
    ):
        try:
            client.execute_command(*wrong)
            raise SystemExit(f"{wrong} was accepted")
        except redis.ResponseError as error:
            assert told in str(error), error

# As its users have it: a transaction.
try:
    redis.Redis(port=port).pipeline().execute_command("PING").execute()
    raise SystemExit("a transaction was accepted")
except redis.ResponseError as error:
    assert "is not supported: send a pipeline without a transaction" in str(error), error

print("restart", flush=True)
sys.stdin.readline()
assert client.execute_command("CL.THROTTLE", "py:again", 1, 30, 60) == [0, 2, 1, -1, 2]
print("done", flush=True)
