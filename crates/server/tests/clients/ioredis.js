// ioredis against the door: its ready check, pipelines, a reconnect.

const assert = require("assert");
const Redis = require("ioredis");
const readline = require("readline");

const port = Number(process.argv[2]);
setTimeout(() => process.exit(2), 60_000).unref();

async function main() {
  const client = new Redis({ port, connectionName: "io", retryStrategy: () => 50 });
  client.on("error", () => {});
  await new Promise((resolve) => client.once("ready", resolve));
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.client("GETNAME"), "io");
  const throttle = (key) => client.call("CL.THROTTLE", key, 1, 30, 60);
  assert.deepEqual(await throttle("io:1"), [0, 2, 1, -1, 2]);
  assert.deepEqual(await client.call("THROTTLE", "io:1", 2, 30, 60), [1, 2, 1, 2, 0]);

  const pipeline = client.pipeline();
  for (let i = 0; i < 100; i++) pipeline.call("CL.THROTTLE", "io:pipe", 49, 50, 60);
  const replies = await pipeline.exec();
  assert.equal(replies.filter(([error, reply]) => !error && reply[0] === 0).length, 50);
  assert.deepEqual(replies.slice(0, 50).map(([, reply]) => reply[2]), [...Array(50).keys()].reverse());

  const check = await client.call("TIDEGATE.CHECK", "ATTRIBUTE", "user", "io");
  assert.deepEqual(check.slice(0, 4), ["verdict", "allow", "limit", 2]);
  await assert.rejects(client.call("CL.THROTTLE", "k", "x", 1, 1), /max_burst must be/);
  await assert.rejects(client.get("k"), /unknown command 'get'/);

  console.log("restart");
  await new Promise((resolve) => readline.createInterface(process.stdin).once("line", resolve));
  assert.deepEqual(await throttle("io:again"), [0, 2, 1, -1, 2]);
  console.log("done");
  client.disconnect();
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
