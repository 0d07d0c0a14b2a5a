// HTTP/2 through a gateway, client and server of Node.
//
//   neighbours.mjs serve [CERTIFICATE KEY]   prints its port; ends with its standard input
//   neighbours.mjs subscribe PORT [CA]       reads nothing of six streams of events until it is told to end
//   neighbours.mjs beside PORT [CA]          makes requests until it is told to end; none may fail

import { readFileSync } from "node:fs";
import http2 from "node:http2";

const [, , task, ...rest] = process.argv;
const EVENT = "data: a tick like all\n\n";

function serve(certificate, key) {
  const server = certificate
    ? http2.createSecureServer({ cert: readFileSync(certificate), key: readFileSync(key) })
    : http2.createServer();
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    if (headers[":path"] === "/echo") {
      stream.respond({ ":status": 200 });
      stream.pipe(stream);
      return;
    }
    stream.respond({ ":status": 200, "content-type": "text/event-stream" });
    // A frame an event, for as long as the client takes them.
    const tick = () => {
      while (!stream.destroyed && stream.write(EVENT));
    };
    stream.on("drain", tick);
    tick();
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
  process.stdin.resume().on("end", () => process.exit(0));
}

function connect(port, ca) {
  const session = ca
    ? http2.connect(`https://localhost:${port}`, { ca: readFileSync(ca) })
    : http2.connect(`http://localhost:${port}`);
  session.on("error", fail).on("goaway", (code) => fail(new Error(`GOAWAY ${code}`)));
  return session;
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

const told = new Promise((resolve) => process.stdin.once("data", resolve));

async function subscribe(port, ca) {
  const session = connect(port, ca);
  const begun = [];
  for (let index = 0; index < 6; index += 1) {
    const stream = session.request({ ":path": "/events" });
    stream.on("error", fail);
    begun.push(new Promise((resolve) => stream.on("response", resolve)));
  }
  await Promise.all(begun);
  console.log("subscribed");
  await told;
  process.exit(0);
}

async function beside(port, ca) {
  const session = connect(port, ca);
  const living = session.request({ ":path": "/echo", ":method": "POST" });
  living.on("error", fail).setEncoding("utf8");
  const chunks = living[Symbol.asyncIterator]();
  let ended = false;
  told.then(() => (ended = true));
  for (let number = 1; number <= 200 || !ended; number += 1) {
    living.write(`${number}`);
    const { value } = await chunks.next();
    if (value !== `${number}`) fail(new Error(`${value} instead of ${number}`));
    if (number === 1) console.log("begun");
  }
  living.end();
  if (!(await chunks.next()).done) fail(new Error("more than was sent"));
  process.exit(0);
}

({ serve, subscribe, beside })[task](...rest);
