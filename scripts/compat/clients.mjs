// Node's clients: each makes its requests and throws where an answer is not what it should be.
//
//     clients.mjs CLIENT URL CA VERSION
import assert from "node:assert";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const [, , client, url, authority, version] = process.argv;
const ca = readFileSync(authority);

async function undici() {
  const { Agent, request } = require("undici");
  const dispatcher = new Agent({ connections: 4, allowH2: version === "2", connect: { ca } });
  const ask = async (path, body) => {
    const answer = await request(url + path, { dispatcher, method: body ? "POST" : "GET", body });
    return [answer.statusCode, Buffer.from(await answer.body.arrayBuffer())];
  };
  const body = randomBytes(1 << 20);
  assert.deepEqual(await ask("/node/echo", body), [200, body]);
  assert.equal((await ask("/nginx/file"))[1].length, 100_000);
  const many = await Promise.all(Array.from({ length: 100 }, () => ask("/nginx/file")));
  assert(many.every(([status]) => status === 200));
  const limited = `/limited/undici-${version}-${url.split(":")[0]}`;
  assert.deepEqual([(await ask(limited))[0], (await ask(limited))[0]], [200, 429]);
  await dispatcher.close();
}

async function ws() {
  const { WebSocket } = require("ws");
  const socket = new WebSocket(url.replace("http", "ws") + "/node/socket", { ca, perMessageDeflate: true });
  await new Promise((opened, failed) => socket.on("open", opened).on("error", failed));
  for (const size of [0, 1, 126, 65_536, 1 << 20]) {
    const message = randomBytes(size);
    const answer = new Promise((received) => socket.once("message", received));
    socket.send(message);
    assert.deepEqual(await answer, message);
  }
  const closed = new Promise((told) => socket.on("close", told));
  socket.close(1000);
  assert.equal(await closed, 1000);
}

async function grpc() {
  const grpc = require("@grpc/grpc-js");
  const bytes = { serialize: (x) => x, deserialize: (x) => x };
  const method = (name, requestStream, responseStream) => ({
    path: `/test.Echo/${name}`, requestStream, responseStream,
    requestSerialize: bytes.serialize, requestDeserialize: bytes.deserialize,
    responseSerialize: bytes.serialize, responseDeserialize: bytes.deserialize,
  });
  const Echo = grpc.makeGenericClientConstructor({
    Unary: method("Unary", false, false), Many: method("Many", false, true), Joined: method("Joined", true, false),
    Each: method("Each", true, true), Fail: method("Fail", false, false), Sleep: method("Sleep", false, false),
  }, "test.Echo");
  const credentials = url.startsWith("https") ? grpc.credentials.createSsl(ca) : grpc.credentials.createInsecure();
  const echo = new Echo(new URL(url).host, credentials);
  const asked = (name, ...arguments_) => new Promise((done) => {
    echo[name](...arguments_, (error, answer) => done([error, answer]));
  });
  const received = async (call) => {
    const messages = [];
    for await (const message of call) messages.push(message.toString());
    return messages;
  };
  const message = randomBytes(1 << 20);
  assert.deepEqual((await asked("Unary", message))[1], message);
  assert.equal((await received(echo.Many(Buffer.from("100")))).length, 100);
  const joined = new Promise((done) => {
    const call = echo.Joined((_, answer) => done(answer));
    for (let number = 0; number < 10; number += 1) call.write(Buffer.from(String(number)));
    call.end();
  });
  assert.equal((await joined).toString(), "0123456789");
  const each = echo.Each();
  for (let number = 0; number < 10; number += 1) {
    const answer = new Promise((came) => each.once("data", came));
    each.write(Buffer.from(String(number)));
    assert.equal((await answer).toString(), String(number));
  }
  each.end();
  assert.equal((await asked("Fail", message))[0].code, grpc.status.NOT_FOUND);
  const late = await asked("Sleep", message, { deadline: Date.now() + 300 });
  assert.equal(late[0].code, grpc.status.DEADLINE_EXCEEDED);
  const metadata = new grpc.Metadata();
  metadata.set("x-limited", `grpc-js-${url.split(":")[0]}`);
  assert.equal((await asked("Unary", message, metadata))[0], null);
  const [refused] = await asked("Unary", message, metadata);
  assert.equal(refused.code, grpc.status.RESOURCE_EXHAUSTED);
  echo.close();
}

await { undici, ws, "grpc-js": grpc }[client]();
process.exit(0);
