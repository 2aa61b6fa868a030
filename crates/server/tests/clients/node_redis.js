// node-redis against the door: both protocols, commands that share one write, a reconnect.

const assert = require("assert");
const readline = require("readline");
const { createClient } = require("redis");

const port = Number(process.argv[2]);
setTimeout(() => process.exit(2), 60_000).unref();

async function talk(version) {
  const socket = { port, reconnectStrategy: () => 50 };
  const client = createClient({ socket, RESP: version, name: `node-${version}` });
  client.on("error", () => {});
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.sendCommand(["CLIENT", "GETNAME"]), `node-${version}`);
  const throttle = (key) => client.sendCommand(["CL.THROTTLE", key, "1", "30", "60"]);
  assert.deepEqual(await throttle(`node:${version}`), [0, 2, 1, -1, 2]);

  const many = [...Array(100)].map(() =>
    client.sendCommand(["CL.THROTTLE", `node:pipe:${version}`, "49", "50", "60"]));
  const replies = await Promise.all(many);
  assert.equal(replies.filter((reply) => reply[0] === 0).length, 50);
  assert.deepEqual(replies.slice(0, 50).map((reply) => reply[2]), [...Array(50).keys()].reverse());

  const check = await client.sendCommand(["TIDEGATE.CHECK", "ATTRIBUTE", "user", `node-${version}`]);
  const verdict = version === 2 ? check[1] : check.verdict ?? check.get("verdict");
  assert.equal(verdict, "allow");
  await assert.rejects(client.sendCommand(["CL.THROTTLE", "k"]), /wrong number of arguments/);
  return { client, throttle };
}

async function main() {
  const clients = [await talk(2), await talk(3)];
  console.log("restart");
  await new Promise((resolve) => readline.createInterface(process.stdin).once("line", resolve));
  for (const [at, { throttle }] of clients.entries()) {
    assert.deepEqual(await throttle(`node:again:${at}`), [0, 2, 1, -1, 2]);
  }
  console.log("done");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
