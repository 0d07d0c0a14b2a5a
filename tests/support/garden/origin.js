// Answers with the path as Node's own means read it, a line each: the reader, then bytes in hex.
const http = require("http");

const readers = {
  // What http gives, as Express and others match it.
  url: (target) => target.split("?")[0],
  // What routers that decode before they match see.
  decoded: (target) => decodeURIComponent(target.split("?")[0]),
  // What those see that parse it as a URL.
  parsed: (target) => new URL(target, "http://origin").pathname,
  "parsed-decoded": (target) => decodeURIComponent(new URL(target, "http://origin").pathname),
};

const server = http.createServer({ maxHeaderSize: 131072 }, (request, response) => {
  let lines = "";
  for (const [name, read] of Object.entries(readers)) {
    let path;
    try {
      path = read(request.url);
    } catch (error) {
      path = "";
    }
    lines += `node-${name} ${Buffer.from(path).toString("hex")}\n`;
  }
  response.end(lines);
});

// Answers with the whole request as it was read.
const echo = http.createServer((request, response) => {
  const { method, url, headers } = request;
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const read = Buffer.from(`${method} ${url}\n${headers.host}\n${Buffer.concat(pieces)}`);
    response.setHeader("X-Read", read.toString("hex"));
    response.end(read);
  });
});

const listen = (server, next) => {
  server.keepAliveTimeout = 60000;
  server.listen(0, "127.0.0.1", () => {
    console.log(server.address().port);
    next?.();
  });
};
listen(server, () => listen(echo));
// The test holds the other end: no test, no origin.
process.stdin.on("end", () => process.exit()).resume();
